# frozen_string_literal: true

require "open3"
require_relative "../support/contract"

# Children: starting them, talking with them, waiting for them, and $?.
# Starting one (fork and exec) is work of the kernel that nothing can wait for aside.
class ProcessTest < Contract
  SPAWN_GAP = 0.060

  contract "backticks give output and status", gap: SPAWN_GAP do
    assert_equal "out\n", `sleep 0.02; echo out; exit 3`
    assert_equal 3, $?.exitstatus
  end

  contract "system gives true, false and nil", gap: SPAWN_GAP do
    assert_equal true, system("sleep 0.02")
    assert_equal 0, $?.exitstatus
    assert_equal false, system("exit 2")
    assert_equal 2, $?.exitstatus
    assert_nil system("/nonexistent/command")
    assert_raises(Errno::ENOENT) { system("/nonexistent/command", exception: true) }
    assert_raises(RuntimeError) { system("exit 1", exception: true) }
  end

  contract "Process.wait waits and sets $?", gap: SPAWN_GAP do
    pid = spawn("sleep 0.03; exit 7")
    assert_equal pid, assert_takes(0.02, slack: 2) { Process.wait(pid) }
    assert_equal [pid, 7], [$?.pid, $?.exitstatus]
  end

  contract "Process.wait2, waitpid and waitpid2", gap: SPAWN_GAP do
    pid = spawn("exit 4")
    found, status = Process.wait2(pid)
    assert_equal [pid, 4], [found, status.exitstatus]
    pid = spawn("exit 5")
    assert_equal [pid, 5], [Process.waitpid(pid), $?.exitstatus]
    pid = spawn("exit 6")
    assert_equal 6, Process.waitpid2(pid).last.exitstatus
  end

  contract "Process.wait for a child killed by a signal", gap: SPAWN_GAP do
    pid = spawn("sleep 10")
    waiting = parked { Process.wait2(pid) }
    Process.kill(:TERM, pid)
    status = waiting.value.last
    assert_predicate status, :signaled?
    assert_equal Signal.list["TERM"], status.termsig
  end

  contract "Process.wait with WNOHANG does not wait", gap: SPAWN_GAP do
    pid = spawn("sleep 0.05")
    assert_nil Process.wait(pid, Process::WNOHANG)
    assert_equal pid, Process.wait(pid)
  end

  contract "Process.wait of nobody raises ECHILD", gap: SPAWN_GAP do
    assert_raises(Errno::ECHILD) { Process.wait(1) }
    assert_raises(Errno::ECHILD) { Process.wait }
    pid = spawn("true")
    Process.wait(pid)
    assert_raises(Errno::ECHILD) { Process.wait(pid) }
  end

  contract "Process.wait for any child", gap: SPAWN_GAP do
    slow = spawn("sleep 0.06; exit 1")
    fast = spawn("sleep 0.02; exit 2")
    assert_equal [fast, 2], [Process.wait, $?.exitstatus]
    assert_equal [slow, 1], [Process.wait(-1), $?.exitstatus]
  end

  contract "Process.waitall", gap: SPAWN_GAP do
    pids = Array.new(3) { |i| spawn("sleep 0.0#{i}; exit #{i}") }
    found = Process.waitall
    assert_equal pids.sort, found.map(&:first).sort
    assert_equal [0, 1, 2], found.map { |_, status| status.exitstatus }.sort
  end

  contract "Process.detach gives a thread with the status", gap: SPAWN_GAP do
    pid = spawn("sleep 0.02; exit 9")
    status = Process.detach(pid).value
    assert_equal [pid, 9], [status.pid, status.exitstatus]
  end

  contract "several fibers wait for children at once", gap: 0.100 do
    start = clock
    codes = Array.new(5) { |i| strand {
 Process.wait2(spawn("sleep 0.1; exit #{i}")).last.exitstatus } }
    assert_equal [0, 1, 2, 3, 4], codes.map(&:value)
    assert_operator clock - start, :<, 0.45
  end

  contract "$? belongs to who waited", gap: 0.100 do
    codes = Array.new(3) do |i|
      strand do
        system("sleep 0.0#{5 - i}; exit #{i}")
        # Ruby keeps $? per thread: under a scheduler it is read before the next wait.
        $?.exitstatus
      end
    end
    assert_equal [0, 1, 2], codes.map(&:value)
  end

  contract "IO.popen reads and writes", gap: SPAWN_GAP do
    IO.popen("cat", "r+") do |cat|
      line = strand { cat.gets }
      cat.puts("through cat")
      assert_equal "through cat\n", line.value
      cat.close_write
      assert_nil cat.read(1)
    end
    assert_predicate $?, :success?
  end

  contract "IO.popen close waits for the child", gap: SPAWN_GAP do
    io = IO.popen("echo x; exit 3")
    assert_equal "x\n", io.read
    io.close
    assert_equal 3, $?.exitstatus
  end

  contract "IO.popen by array and by block of a fork", gap: SPAWN_GAP do
    assert_equal "a b\n", IO.popen(%w[echo a b], &:read)
    assert_equal "child", IO.popen("-") { |io| io ? io.read : print("child") }
  end

  contract "Open3.capture2e and capture3", gap: SPAWN_GAP do
    out, err, status = Open3.capture3("cat; echo err >&2; exit 1", stdin_data: "in" * 50_000)
    assert_equal ["in" * 50_000, "err\n", 1], [out, err, status.exitstatus]
    both, status = Open3.capture2e("echo a; echo b >&2")
    assert_equal [%W[a\n b\n], 0], [both.lines.sort, status.exitstatus]
  end

  contract "Open3.popen3 talks with the child", gap: SPAWN_GAP do
    Open3.popen3("cat; echo bye >&2") do |input, out, err, waiter| # rubocop:disable Metrics/ParameterLists
      input.puts("hello")
      assert_equal "hello\n", out.gets
      input.close
      assert_equal "bye\n", err.read
      assert_predicate waiter.value, :success?
    end
  end

  contract "Open3.pipeline_r", gap: SPAWN_GAP do
    Open3.pipeline_r("printf 'b\\na\\n'", "sort") do |out, waiters|
      assert_equal "a\nb\n", out.read
      assert(waiters.all? { |waiter| waiter.value.success? })
    end
  end

  contract "a timeout around a child that takes too long", gap: SPAWN_GAP do
    pid = spawn("sleep 10")
    assert_raises(Timeout::Error) { Timeout.timeout(0.03) { Process.wait(pid) } }
    Process.kill(:KILL, pid)
    assert_equal pid, Process.wait(pid)
    assert_predicate $?, :signaled?
  end

  contract "Process::Status.wait", gap: SPAWN_GAP, only: :fibers do
    pid = spawn("sleep 0.02; exit 8")
    assert_equal 8, Process::Status.wait(pid).exitstatus
  end
end
