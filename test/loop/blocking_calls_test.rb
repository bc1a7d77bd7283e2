# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require_relative "../support/program"
require_relative "../support/subprocess"

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

# The list of calls that wait without asking the loop.
class BlockingCallsTest < Minitest::Test
  parallelize_me! # each is a subprocess

  PRELUDE = "require 'socket'; require 'tmpdir'; FOLDER = Dir.mktmpdir; at_exit { FileUtils.rm_rf(FOLDER) }; " \
            "def blocking(&b) = Fiber.new(blocking: true, &b).resume; NB::BlockingCalls.start(least: %s); " \
            "def late = Thread.new { sleep 0.001 until Thread.main.stop?; sleep 0.05; yield }\n"

  def calls(script, least: 0.005, run: "")
    code = "#{format(PRELUDE, least)}NB.run(#{run}) do\n#{script}\nend\nputs NB.blocking_calls.map { |c| [c.place, c.callee, c.count, c.total, c.longest].inspect }"
    result = Subprocess.ruby(code, limit: 60)
    assert_predicate result.status, :success?, result.err
    result.out.lines.map { |line| eval(line) } # rubocop:disable Security/Eval -- an Array's text
  end

  # Each waits at line 4 for at least as long as the number says: who ends a wait counts from its
  # beginning, however late that is.
  PLANTED = {
    a_blocking_sleep: ["blocking { sleep 0.03 }", "Kernel#sleep", 0.03],
    a_fifo: ["(File.mkfifo(F = FOLDER + '/f')) && late { File.write(F, 'x') }\nFile.read(F)", "IO.read", 0.05],
    a_lock: ["(A, B = Array.new(2) { File.new(FOLDER + '/l', 'w') }) && A.flock(2) && late { A.flock(8) }\nB.flock(2)", "File#flock", 0.05],
    a_queue: ["Q = Queue.new; late { Q << 1 }\nblocking { Q.pop }", "Thread::Queue#pop", 0.05],
    a_socket: ["A, B = UNIXSocket.pair; late { B << 'x' }\nblocking { A.read(1) }", "IO#read", 0.05],
    a_child: ["R, W = IO.pipe; PID = spawn('head -n 1', in: R, out: '/dev/null'); late { W.puts }\nblocking { Process.wait(PID) }", "Process.wait", 0.05],
    a_join: ["T = late { }\nblocking { T.join }", "Thread#join", 0.05]
  }.freeze

  PLANTED.each do |name, (script, callee, seconds)|
    define_method("test_#{name}_is_named") do
      skip_without
      line = 4 + script.count("\n")
      found = calls("NB.async { sleep 1 }\n#{script}", run: "repairs: false")
      place, method, count, total, longest = found.first
      assert_match(/\A-e:#{line}:in /, place, found.inspect)
      assert_includes [callee, callee.sub("Thread::", "")], method
      assert_operator longest, :>=, seconds
      assert_operator longest, :<, 5
      assert_operator total, :>=, longest
      assert_equal 1, count
    end
  end

  # What would block for less would never end: the other side is in the same thread.
  def test_what_waits_in_the_loop_is_not_listed
    skip_without
    assert_empty(calls(<<~'RUBY', least: 0.03))
      a, b = UNIXSocket.pair
      queue = Queue.new
      mutex = Mutex.new
      [-> { 300.times { a.write("x"); a.readpartial(1) } }, -> { 300.times { b.readpartial(1); b.write("y") } },
       -> { 50.times { sleep 0.001; queue << 1 } }, -> { 50.times { queue.pop } },
       -> { 3.times { mutex.synchronize { sleep 0.05 } } }, -> { 2.times { mutex.synchronize { sleep 0.05 } } },
       -> { system("sleep 0.05") }, -> { `sleep 0.05` }, -> { Thread.new { sleep 0.05 }.join },
       -> { Addrinfo.getaddrinfo("localhost", 80) }, -> { File.write(FOLDER + "/x", "y" * 10_000) },
       -> { Timeout.timeout(0.05) { sleep } rescue nil }]
        .map { |work| NB.async(&work) }.each(&:wait)
    RUBY
  end

  def test_threads_that_compute_are_none
    skip_without
    found = calls("4.times.map { Thread.new { 300_000.times.map(&:to_s) } }.each(&:join); 200_000.times.map(&:to_s)")
    assert_empty found
  end

  # On a busy machine a short wait may be a long one: how long it was, the clock around it says.
  def test_counts_places_apart_and_adds_up
    skip_without
    found = calls("def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)\n" \
                  "2.times { blocking { sleep 0.01 } }\nblocking { sleep 0.05 }\nbegan = clock\nblocking { sleep 0.002 }\np [:took, clock - began]")
    _, took = found.shift
    counts = found.to_h { |place, _, count| [place[/\A-e:(\d+)/, 1].to_i, count] }
    assert_equal({ 4 => 2, 5 => 1 }, counts.except(*(7 if took >= 0.005)))
    totals = found.map { |call| call[3] }
    assert_equal totals.sort.reverse, totals
    assert_operator found.find { |place,| place.start_with?("-e:4") }[3], :>=, 0.02
  end

  def test_starts_stops_and_forgets
    skip_without
    result = Subprocess.ruby(<<~'RUBY', limit: 60)
      def plant = NB.run { Fiber.new(blocking: true) { sleep 0.01 }.resume }
      plant
      p NB.blocking_calls.size
      NB::BlockingCalls.start(least: 0.005)
      NB::BlockingCalls.start(least: 0.005)
      plant
      NB::BlockingCalls.stop
      plant
      p NB.blocking_calls.map(&:count)
      GC.start
      GC.compact if GC.respond_to?(:compact)
      puts NB.blocking_calls
      NB::BlockingCalls.clear
      p NB.blocking_calls
      [-1, 4000, Float::NAN, nil].each { |least| NB::BlockingCalls.start(least: least) rescue p $!.class }
    RUBY
    lines = result.out.lines(chomp: true)
    assert_equal ["0", "[1]", "[]", *["ArgumentError"] * 4], lines.values_at(0, 1, *3..7), result.err
    assert_match(/\A +\d+\.\d{2} ms  longest +\d+\.\d{2} ms +1 times  -e:1:in .*plant'+ \(Kernel#sleep\)\z/, lines[2])
  end

  # Many threads with a loop each, and more places than are kept.
  def test_many_places_and_threads
    skip_without
    places = Array.new(1200) { "blocking { sleep 0.0003 }\n" }.join
    found = calls("THREADS = 3.times.map { Thread.new { NB.run {\n#{places}} } }.each(&:join)", least: 0.0001)
    assert_operator found.size, :>, 1000
    assert(found.any? { |place,| place.nil? })
    assert_operator found.sum { |call| call[2] }, :>=, 3600
  end

  def test_the_command_lists_them_at_the_end
    out, err, status = Program.nb("run", "--blocking", "-e", "Fiber.new(blocking: true) { sleep 0.02 }.resume; puts :done; raise 'x' if ARGV[0]")
    unless NB::BlockingCalls.available?
      assert_equal ["", 2], [out, status.exitstatus]
      return assert_match(/\Anb run: --blocking: the list of blocking calls needs Ruby 3\.2 or later: this is 3\.1/, err)
    end

    assert_equal ["done\n", 0], [out, status.exitstatus]
    assert_match(/^Calls of pid \d+ that waited outside the loop.*:\n +(?:[2-9]|\d{2,})\d\.\d{2} ms .* -e:1:in .*\(Kernel#sleep\)$/, err)
    _, err, status = Program.nb("run", "--blocking", "-e", "Fiber.new(blocking: true) { sleep 0.02 }.resume; raise 'x'")
    assert_match(/^Calls of pid \d+ that waited/, err)
    assert_equal 1, status.exitstatus
    assert_match(/^No call of pid \d+ waited outside the loop\.$/, Program.nb("run", "--blocking", "-e", "sleep 0.01")[1])
  end

  def skip_without
    skip "Ruby 3.1 does not tell when a thread gives up the GVL" unless NB::BlockingCalls.available?
  end
end
# rubocop:enable Layout/LineLength
