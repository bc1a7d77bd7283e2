# frozen_string_literal: true

require "fileutils"
require "open3"
require "tmpdir"
require_relative "../support/contract"

# Children: starting them, talking with them, waiting for them, and $?.
#
# Starting one (fork and exec) is work of the kernel that nothing can wait for aside, and takes as
# long as the machine likes. So no clock judges here: a child ends only when another strand lets it
# go, which it cannot while the one that waits for the child stops the loop.
class ProcessTest < Contract
  def setup = @folder = Dir.mktmpdir("nb-process")
  def teardown = FileUtils.rm_rf(@folder)

  # @return [String] a script that goes on once {#let_go} was called with the same name
  def held(script, name = "go")
    "until [ -e #{@folder}/#{name} ]; do sleep 0.01; done; #{script}"
  end

  def let_go(name = "go") = File.write("#{@folder}/#{name}", "")

  # As held; a strand lets it go once the body waits.
  def held_by_a_strand(script)
    strand { sleep(0.02) && let_go }
    held(script)
  end

  contract "backticks give output and status", gap: nil do
    assert_equal "out\n", `#{held_by_a_strand("echo out; exit 3")}`
    assert_equal 3, $?.exitstatus
  end

  contract "system gives true, false and nil", gap: nil do
    assert_equal true, system(held_by_a_strand("true"))
    assert_equal 0, $?.exitstatus
    assert_equal false, system("exit 2")
    assert_equal 2, $?.exitstatus
    assert_nil system("/nonexistent/command")
    assert_raises(Errno::ENOENT) { system("/nonexistent/command", exception: true) }
    assert_raises(RuntimeError) { system("exit 1", exception: true) }
  end

  contract "each strand has a $? of its own", gap: nil do
    others = [1, 2].map { |number| strand { system("exit #{number}") && flunk; wait_and_look } }
    none = strand { sleep(0.05) && $? }
    system("exit 3")
    assert_equal [[1, 2], nil], [others.map(&:value), none.value]
    assert_equal 3, wait_and_look
    reader = Enumerator.new { |list| list << `exit 4` << wait_and_look }
    reader.next
    strand { `exit 5` }.value
    assert_equal [4, 4], [reader.next, $?.exitstatus]
  end

  # A debugger sees the call that clears $?, and may run a command of its own.
  def test_a_trace_of_what_clears_it_may_wait_for_children
    seen = []
    trace = TracePoint.new(:c_call) do |point|
      next unless point.self == Process && point.method_id == :wait

      trace.disable { seen << system("exit 5") << $?.exitstatus }
    end
    statuses = Thread.new do # whose $? is nil
      NB.run do
        ended = Thread::Queue.new
        none = NB.async { trace.enable { ended.pop && $? } }
        other = NB.async { system("exit 3") || (ended.push(true) && wait_and_look) }
        [other.value, none.value]
      end
    end.value
    assert_equal [3, nil], statuses
    assert_equal [false, 5], seen.first(2)
  ensure
    trace.disable # its own block would enable it again if it outlived that of enable
  end

  contract "what a strand starts has no status of a child", gap: nil do
    assert_equal 3, (system("exit 3") || $?.exitstatus)
    assert_nil strand { $? }.value
    assert_equal [nil, 4], (strand { [$?, `exit 4` && $?.exitstatus] }.value)
    assert_equal 3, $?.exitstatus
  end

  def wait_and_look = sleep(0.02) && $?.exitstatus

  def test_the_block_of_a_loop_leaves_its_status
    NB.run { NB.async { sleep(0.01) && system("exit 1") } && system("exit 2") }
    assert_equal 2, $?.exitstatus
  end

  contract "Process.wait waits and sets $?", gap: nil do
    pid = spawn(held_by_a_strand("exit 7"))
    assert_equal pid, Process.wait(pid)
    assert_equal [pid, 7], [$?.pid, $?.exitstatus]
  end

  contract "Process.wait2, waitpid and waitpid2", gap: nil do
    pid = spawn(held_by_a_strand("exit 4"))
    found, status = Process.wait2(pid)
    assert_equal [pid, 4], [found, status.exitstatus]
    pid = spawn("exit 5")
    assert_equal [pid, 5], [Process.waitpid(pid), $?.exitstatus]
    pid = spawn("exit 6")
    assert_equal 6, Process.waitpid2(pid).last.exitstatus
  end

  contract "Process.wait for a child killed by a signal", gap: nil do
    pid = spawn("sleep 10")
    waiting = parked { Process.wait2(pid) }
    Process.kill(:TERM, pid)
    status = waiting.value.last
    assert_predicate status, :signaled?
    assert_equal Signal.list["TERM"], status.termsig
  end

  contract "Process.wait with WNOHANG does not wait", gap: nil do
    pid = spawn(held("true"))
    assert_nil Process.wait(pid, Process::WNOHANG)
    let_go
    assert_equal pid, Process.wait(pid)
  end

  contract "Process.wait of nobody raises ECHILD", gap: nil do
    assert_raises(Errno::ECHILD) { Process.wait(1) }
    assert_raises(Errno::ECHILD) { Process.wait }
    pid = spawn("true")
    Process.wait(pid)
    assert_raises(Errno::ECHILD) { Process.wait(pid) }
  end

  contract "Process.wait for any child", gap: nil do
    slow = spawn(held("exit 1", "slow"))
    fast = spawn(held_by_a_strand("exit 2"))
    assert_equal [fast, 2], [Process.wait, $?.exitstatus]
    let_go("slow")
    assert_equal [slow, 1], [Process.wait(-1), $?.exitstatus]
  end

  contract "an interrupted wait for any child reaps nobody afterwards", gap: nil do
    long = spawn("exec sleep 10")
    [-1, 0].each do |any|
      waiting = parked { Process.wait(any) }
      waiting.interrupt(ArgumentError.new("enough"))
      assert_equal "enough", waiting.failure.message
    end
    pid = spawn("exit 7")
    sleep 0.05
    assert_equal 7, Process.wait2(pid).last.exitstatus
  ensure
    Process.kill(:KILL, long)
    Process.wait(long)
  end

  contract "several wait for any child, each gets one", gap: nil do
    3.times { |i| spawn("sleep 0.02; exit #{i}") }
    waiting = Array.new(3) { strand { Process.wait2(-1).last.exitstatus } }
    assert_equal [0, 1, 2], waiting.map(&:value).sort
  end

  contract "Process.wait for a group", gap: nil do
    other = spawn("exec sleep 10")
    group = spawn("exit 3", pgroup: true)
    assert_equal [group, 3], [Process.wait(-group), $?.exitstatus]
    assert_raises(Errno::ECHILD) { Process.wait(-group) }
  ensure
    Process.kill(:KILL, other)
    Process.wait(other)
  end

  contract "Process.wait for a child that stops", gap: nil do
    pid = spawn("exec sleep 10", pgroup: true)
    waiting = parked { Process.wait2(-pid, Process::WUNTRACED).last.stopped? }
    Process.kill(:STOP, pid)
    assert_equal true, waiting.value
  ensure
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  contract "Process.wait for a child that goes on", gap: nil do
    pid = spawn("exec sleep 10", pgroup: true)
    Process.kill(:STOP, pid)
    Process.wait(-pid, Process::WUNTRACED)
    waiting = parked { Process.wait2(-pid, 8).last } # WCONTINUED, which Ruby has no name for
    Process.kill(:CONT, pid)
    assert_equal [false, false], [waiting.value.exited?, waiting.value.signaled?]
  ensure
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  contract "Process.waitall", gap: nil do
    pids = Array.new(3) { |i| spawn(held("exit #{i}")) }
    strand { sleep(0.02) && let_go }
    found = Process.waitall
    assert_equal pids.sort, found.map(&:first).sort
    assert_equal [0, 1, 2], found.map { |_, status| status.exitstatus }.sort
  end

  contract "Process.detach gives a thread with the status", gap: nil do
    pid = spawn(held_by_a_strand("exit 9"))
    status = Process.detach(pid).value
    assert_equal [pid, 9], [status.pid, status.exitstatus]
  end

  contract "several fibers wait for children at once", gap: nil do
    waiting = 0
    codes = Array.new(5) do |i|
      strand do
        pid = spawn(held("exit #{i}"))
        waiting += 1
        Process.wait2(pid).last.exitstatus
      end
    end
    sleep 0.001 until waiting == 5 # none has come back
    let_go
    assert_equal [0, 1, 2, 3, 4], codes.map(&:value)
  end

  contract "$? belongs to who waited", gap: nil do
    codes = Array.new(3) do |i|
      strand do
        system(held("exit #{i}", i))
        # Ruby keeps $? per thread: under a scheduler it is read before the next wait.
        $?.exitstatus
      end
    end
    assert_equal([2, 1, 0], [2, 1, 0].map { |i| let_go(i) && codes[i].value })
  end

  contract "IO.popen reads and writes", gap: nil do
    IO.popen("cat", "r+") do |cat|
      line = strand { cat.gets }
      cat.puts("through cat")
      assert_equal "through cat\n", line.value
      cat.close_write
      assert_nil cat.read(1)
    end
    assert_predicate $?, :success?
  end

  contract "IO.popen close waits for the child", gap: nil do
    io = IO.popen(held("echo x; exec >&-; #{held("exit 3", "end")}"))
    let_go
    assert_equal "x\n", io.read
    strand { sleep(0.02) && let_go("end") }
    io.close
    assert_equal 3, $?.exitstatus
  end

  # In threads, Ruby 3.1 raises EAGAIN, and IOError after close_read.
  AS_FIBERS = (:fibers if RUBY_VERSION < "3.2")

  contract "syswrite to a child that reads and writes waits", gap: nil, only: AS_FIBERS do
    child = IO.popen(held("wc -c"), "r+")
    writing = parked do
      written = 0
      written += child.syswrite("x" * (300_000 - written)) until written == 300_000
      child.close_write
      child.read
    end
    let_go
    assert_equal "300000", writing.value.strip
    child.close
  end

  contract "write to a child waits, also after close_read", gap: nil, only: AS_FIBERS do
    child = IO.popen(held("cat > /dev/null"), "r+")
    child.close_read
    writing = parked { child.write("x" * 300_000) }
    let_go
    assert_equal 300_000, writing.value
    child.close
    assert_predicate $?, :success?
  end

  contract "IO.popen by array and by block of a fork", gap: nil do
    assert_equal "a b\n", IO.popen(%w[echo a b], &:read)
    assert_equal "child", IO.popen("-") { |io| io ? io.read : print("child") }
  end

  contract "Open3.capture2e and capture3", gap: nil do
    out, err, status = Open3.capture3("cat; echo err >&2; exit 1", stdin_data: "in" * 50_000)
    assert_equal ["in" * 50_000, "err\n", 1], [out, err, status.exitstatus]
    both, status = Open3.capture2e("echo a; echo b >&2")
    assert_equal [%W[a\n b\n], 0], [both.lines.sort, status.exitstatus]
  end

  contract "Open3.popen3 talks with the child", gap: nil do
    Open3.popen3("cat; echo bye >&2") do |input, out, err, waiter| # rubocop:disable Metrics/ParameterLists
      input.puts("hello")
      assert_equal "hello\n", out.gets
      input.close
      assert_equal "bye\n", err.read
      assert_predicate waiter.value, :success?
    end
  end

  contract "Open3.pipeline_r", gap: nil do
    Open3.pipeline_r("printf 'b\\na\\n'", "sort") do |out, waiters|
      assert_equal "a\nb\n", out.read
      assert(waiters.all? { |waiter| waiter.value.success? })
    end
  end

  contract "a timeout around a child that takes too long", gap: nil do
    pid = spawn("sleep 10")
    assert_raises(Timeout::Error) { Timeout.timeout(0.03) { Process.wait(pid) } }
    Process.kill(:KILL, pid)
    assert_equal pid, Process.wait(pid)
    assert_predicate $?, :signaled?
  end

  contract "Process::Status.wait", gap: nil, only: :fibers do
    pid = spawn(held_by_a_strand("exit 8"))
    assert_equal 8, Process::Status.wait(pid).exitstatus
  end
end
