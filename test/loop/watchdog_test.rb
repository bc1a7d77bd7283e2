# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require_relative "../support/subprocess"

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

# What is planted stands still until it is reported: no test depends on how fast the machine is.
# A second fiber waits: a loop whose only fiber computes holds up nobody.
class WatchdogTest < Minitest::Test
  parallelize_me! # each mostly waits for a subprocess

  def setup = @folder = Dir.mktmpdir
  def teardown = FileUtils.rm_rf(@folder)

  ON = { "NB_WATCHDOG" => nil }.freeze

  # The script's line 1 is ours. To ask for the size of a file is no step of the loop.
  PRELUDE = 'ERR = "%s"; $stderr.reopen(ERR, "a"); def told? = File.size?(ERR); ' \
            "def others = NB.async { sleep }; def blocking(&b) = Fiber.new(blocking: true, &b).resume; " \
            "def plant(**o) = NB.run(**o) { other = others; sleep 0.01; yield; other.cancel }\n"

  # @return [String] what was written to stderr
  def stderr(script, env: {}, prelude: PRELUDE)
    path = File.join(@folder, "err")
    result = Subprocess.ruby(format(prelude, path) + script, env: { **ON, **env }, limit: 60)
    err = File.exist?(path) ? File.read(path) : result.err
    assert_predicate result.status, :success?, err + result.err
    err
  end

  COMPUTES = {
    a_ruby_loop: "nil until File.size?(ERR)",
    json: "GC.disable; JSON.generate(BIG) until told?" # or it may be seen while it collects
  }.freeze

  COMPUTES.each do |name, line|
    define_method("test_#{name}_is_named") do
      err = stderr("require 'json'; require 'zlib'; require 'digest'; BIG = Array.new(30_000) { |i| [i, { 'a' => 'b' * 9 }] }\n" \
                   "TEXT = JSON.generate(BIG); BYTES = Random.bytes(2_000_000); NUMBERS = Array.new(200_000) { rand }\n" \
                   "def compute\n  #{line}\nend\nplant { compute }")

      assert_match(/stood still for \d+ ms at -e:5:in `compute'.*: it computes\. NB\.in_process/, err)
    end
  end

  WAITS = {
    a_file_lock: "HOLDER.flock(2) && Thread.new { sleep 0.01 until told?; HOLDER.flock(8) } && File.new(ERR).flock(2)"
  }.freeze

  WAITS.each do |name, line|
    define_method("test_#{name}_in_a_blocking_fiber_is_named") do
      err = stderr("R, W = IO.pipe; HOLDER = File.new(ERR); LOCK = Mutex.new\n" \
                   "Thread.new { LOCK.synchronize { sleep 0.01 until told? } }; FIFO = ERR + '.fifo'; File.mkfifo(FIFO)\n" \
                   "def blocked\n  #{line}\nend\nplant(repairs: false) { blocking { blocked } }")

      assert_match(/stood still for \d+ ms at -e:5:in `blocked'.*: it waits outside the loop, in the system call flock .* NB\.offload/, err)
    end
  end

  def test_the_system_call_and_the_file_are_named
    err = stderr("HOLDER = File.new(ERR).tap { |f| f.flock(2) }\nThread.new { sleep 0.01 until told?; HOLDER.flock(8) }\n" \
                 "plant(repairs: false) { blocking { File.new(ERR).flock(2) } }")

    assert_match(/ at -e:4:in .*in the system call flock \(fd \d+: #{@folder}/, err)
  end

  # The pauses are for the place, which cannot be read while it collects.
  def test_what_another_thread_collects_is_not_said_of_one_that_waits
    err = stderr("HOLDER = File.new(ERR).tap { |f| f.flock(2) }; KEPT = Array.new(500_000) { +'' }\n" \
                 "Thread.new { (GC.start; sleep 0.003) until told?; HOLDER.flock(8) }\n" \
                 "plant(repairs: false) { blocking { File.new(ERR).flock(2) } }")

    assert_match(/ at -e:4:in .*: it waits outside the loop, in the system call flock/, err)
  end

  def test_a_stall_that_was_told_is_told_again_when_it_ends
    err = stderr("plant { blocking { sleep 0.01 until told?; sleep 1 } }\n$stderr.puts NB::Native.stalls.map { |_, numbers| numbers[1] }")

    told, ended, longest = err.lines
    assert_match(/has stood still for \d+ ms at -e:2:/, told)
    assert_match(/ runs again: it stood still for \d+ ms in total at -e:2:in .* \(Kernel#sleep\)$/, ended)
    assert_operator ended[/\d+ ms/].to_i - told[/\d+ ms/].to_i, :>=, 400
    assert_equal ended[/\d+ ms/].to_i, (longest.to_f * 1000).to_i
  end

  def test_a_stall_that_goes_on_elsewhere_is_named_there
    err = stderr("HOLDER = File.new(ERR).tap { |f| f.flock(2) }\nThread.new { sleep 0.01 until told?; HOLDER.flock(8) }\n" \
                 "plant(repairs: false) { blocking { sleep 0.15\n File.new(ERR).flock(2) } }")

    assert_match(/ at -e:5:in .*in the system call flock/, err)
  end

  def test_a_stall_that_goes_on_elsewhere_in_the_same_system_call_is_named_there
    err = stderr("R, W = IO.pipe; Thread.new { sleep 0.15; W << 1; sleep 0.01 until told?; W << 1 }\n" \
                 "plant(repairs: false) { blocking { R.read(1)\n R.read(1) } }")

    assert_match(/has stood still for \d+ ms at -e:4:/, err)
  end

  # Looks come after 300, 600 and 1200 ms, the last of them at line 5. That is where it stands, but
  # not why. Time without a core does not count: neither here nor to the watchdog.
  def test_what_took_longest_is_named_though_the_last_look_met_another_place
    err = stderr("CPU = Process::CLOCK_THREAD_CPUTIME_ID; plant do\n  start = Process.clock_gettime(CPU)\n" \
                 "  nil until Process.clock_gettime(CPU) - start > 1.19\n" \
                 "  nil until Process.clock_gettime(CPU) - start > 1.29\nend", env: { "NB_WATCHDOG" => "300" })

    assert_match(/has stood still for \d+ ms at -e:4:.* it computes/, err)
  end

  # Each until both are told: so they do at the same time.
  def test_of_two_loops_that_stand_still_at_the_same_time_both_are_named
    stand = "blocking { sleep 0.01 until File.read(ERR).scan(/ at -e:([23]):/).uniq.size == 2 }"
    err = stderr("STANDS = Queue.new; other = Thread.new { plant { STANDS << 1; #{stand} } }\n" \
                 "plant { STANDS.pop; #{stand} }\nother.join")

    assert_match(/stood still for \d+ ms at -e:2:/, err)
    assert_match(/stood still for \d+ ms at -e:3:/, err)
  end

  # Ruby 3.1 does not tell who waits for the GVL, so there the name of the method decides. That is not
  # yet known when a stall of more than a second is told while it lasts, as on a busy machine.
  def test_waiting_for_the_gvl_is_counted_apart
    asked = RUBY_VERSION < "3.2" ? "|of, *| of[0] == 'the GVL'" : "true"
    err = stderr("require 'digest'; def cpu = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID); size = 1 << 20\n" \
                 "nil while (from = cpu; Digest::SHA512.digest('x' * (size *= 2)); cpu - from < 0.2); BYTES = 'x' * size\n" \
                 "def gvl = NB::Native.stalls.find { #{asked} }\nplant { Thread.new { Digest::SHA512.digest(BYTES) until gvl }\n" \
                 "(i = 20_000; i -= 1 while i > 0; sleep 0) until gvl }; $stderr.puts gvl.first.inspect")

    assert_includes err, '["the GVL", nil, "waits for the GVL, which other threads hold"]'
  end

  # At the end of a method in C, too, a thread gives the GVL to others, and its frame is still there.
  def test_waiting_for_the_gvl_at_the_end_of_a_method_in_c_is_no_fault_of_the_method
    skip "Ruby #{RUBY_VERSION} does not tell who waits for the GVL" if RUBY_VERSION < "3.2"
    err = stderr("require 'digest'; def cpu = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID); size = 1 << 20\n" \
                 "nil while (from = cpu; Digest::SHA512.digest('x' * (size *= 2)); cpu - from < 0.2); BYTES = 'x' * size\n" \
                 "PART = 'x' * (size / 64); def counted? = NB::Native.stalls.any?\n" \
                 "plant { Thread.new { Digest::SHA512.digest(BYTES) until counted? }; Digest::SHA512.digest(PART) until counted? }\n" \
                 "$stderr.puts NB::Native.stalls.first.first.inspect")

    assert_includes err, '["the GVL", nil, "waits for the GVL, which other threads hold"]'
  end

  # The thread that wakes another one may be the one that tells Ruby: it wants the GVL.
  def test_that_a_woken_thread_wants_the_gvl_is_not_said_of_the_one_that_woke_it
    err = stderr("ASLEEP, WANTED = Queue.new, Queue.new; other = Thread.new { ASLEEP.pop; sleep 0.01 until told?; WANTED << 1 }\n" \
                 "plant { sleep 0.01 until other.stop?; blocking { ASLEEP << 1; WANTED.pop } }")

    assert_match(/ at -e:3:in .*: it waits outside the loop/, err)
  end

  def test_forked_children_report_beside_loops_of_other_threads_of_their_parent
    skip "From Ruby 4.0 on a forked child has no scheduler" if RUBY_VERSION >= "4"
    err = stderr("def stall = (size = told?; blocking { sleep 0.01 until told? != size })\n" \
                 "t = Thread.new { plant { sleep } }; sleep 0.1; plant { Process.wait(fork { others; sleep 0.01; stall; exit!(0) }) }\n" \
                 "Process.wait(fork { plant { stall } }); t.kill.join")

    assert_equal 2, err.scan(/the loop of pid (\d+) has stood/).uniq.size, err
  end

  # A child that collects cannot read its frames at once. It has no answer to fall back on.
  def test_a_forked_child_does_not_answer_for_its_parent
    err = stderr("R, W = IO.pipe; t = Thread.new { plant { blocking { R.read(1) } } }; sleep 0.01 until told?; told = told?\n" \
                 "Process.wait(fork { plant { GC.start until told? > told }; exit!(0) }); W << 1; t.join")

    assert_match(/pid #{err[/ (\d+) has/, 1]} runs again.* at -e:2:/, err)
    assert_match(/has stood still for \d+ ms at -e:[13]:/, err) # or in told?, after the collection
  end

  # On a busy machine, to start a process may take longer than a loop may stand.
  def test_waiting_in_the_loop_is_nothing_to_report
    assert_empty stderr("child = spawn('sleep 0.8')\n" \
                        "plant { 3.times { NB.async { sleep 0.4 } }; sleep 0.4; Process.wait(child) }")
  end

  # It stands for 60 ms, or longer on a busy machine. From the beginning of its sleep, that would be
  # 60 ms more.
  def test_a_stall_begins_when_the_loop_wakes_up
    err = stderr("def clock = Process.clock_gettime(1); def compute = clock.then { |t| nil while clock < t + 0.06; clock - t }\n" \
                 "plant { $stderr.puts \"computed for \#{Array.new(12) { sleep 0.06; compute }.max}\" }")
    longest = Float(err[/computed for (\S+)/, 1]) * 1000
    err.scan(/ (\d+) ms/) { |told,| assert_operator told.to_i, :<=, longest + 30, err }
  end

  # The kernel counts how often its thread has gone to sleep.
  def test_while_all_sleep_nobody_looks
    err = stderr("WATCH = '/proc/self/task/*/comm'; def task = Dir[WATCH].find { |f| File.read(f) == \"nb-watchdog\\n\" }\n" \
                 "def naps = File.read(File.join(File.dirname(task), 'status'))[/^voluntary.*?(\\d+)/, 1].to_i\n" \
                 "plant { sleep 0.5; from = naps; sleep 1; $stderr.puts naps - from }")

    assert_operator Integer(err), :<, 5
  end

  def test_a_stall_after_a_long_sleep_is_told_and_does_not_include_it
    err = stderr("plant { sleep 3; blocking { sleep 0.01 until told? } }")

    assert_match(/has stood still for \d+ ms at -e:2:/, err)
    assert_operator err[/\d+ ms/].to_i, :<, 3_000
  end

  def test_a_stall_of_one_loop_is_told_while_another_sleeps
    err = stderr("other = Thread.new { NB.run { sleep } }; plant { sleep 0.5; blocking { sleep 0.01 until told? } }; other.kill.join")

    assert_match(/has stood still for \d+ ms at -e:2:/, err)
  end

  # As on a busy machine: beside processes that compute, and with the least claim to their core.
  HELD_UP = <<~'RUBY'
    def watchdog = Dir["/proc/self/task/*/comm"].find { |file| File.read(file) == "nb-watchdog\n" }[%r{task/(\d+)}, 1]
    core = File.read("/proc/self/status")[/^Cpus_allowed_list:\s*(\d+)/, 1]
    HOLDER = File.new(ERR).tap { |f| f.flock(2) }
    plant(repairs: false) do
      abort "cannot" unless system("taskset", "-pc", core, watchdog, out: "/dev/null") && system("chrt", "--idle", "-p", "0", watchdog)
      hogs = Array.new(2) { spawn("timeout", "30", "taskset", "-c", core, "sh", "-c", "while :; do :; done") }
      Thread.new { sleep 4; HOLDER.flock(8) }
      began = Process.clock_gettime(1)
      blocking { File.new(ERR).flock(2) }
      $stderr.puts "took: #{Process.clock_gettime(1) - began}"
    ensure
      hogs&.each { |pid| Process.kill(:TERM, pid) && Process.wait(pid) }
    end
    $stderr.puts "longest: #{NB::Native.stalls.map { |_, numbers| numbers[1] }.max.to_f}"
  RUBY
  # The share of a stall that is reported at least, however late the watchdog first looks at it.
  MOST_OF_IT = 0.6

  def test_a_stall_counts_in_full_though_the_watchdog_waits_for_a_core
    skip "needs taskset and chrt" unless %w[taskset chrt].all? { |name| system("which", name, out: File::NULL) }
    err = stderr(HELD_UP)

    took, longest = err.scan(/(?:took|longest): (.*)/).flatten.map(&:to_f)
    assert_operator longest, :>=, MOST_OF_IT * took, err
    assert_match(/has stood still for \d{4} ms at -e:10:/, err)
  end

  def test_a_stopped_process_is_nothing_to_report
    assert_empty stderr("spawn(\"sleep 0.2; kill -STOP \#{$$}; sleep 0.5; kill -CONT \#{$$}\", err: '/dev/null')\n" \
                        "plant { t = Process.clock_gettime(1) + 1; sleep(0) while Process.clock_gettime(1) < t }")
  end

  def test_nobody_looks_when_it_is_off
    assert_empty stderr("plant { blocking { sleep 0.3 } }; warn 1 if Dir['/proc/self/task/*/comm'].any? { |f| File.read(f) == \"nb-watchdog\\n\" }",
                        env: { "NB_WATCHDOG" => "0" })
  end

  def test_rubys_own_deadlock_is_still_told
    result = Subprocess.ruby("NB.run { NB.async { sleep 0.1 }; sleep 0.2 }; Queue.new.pop", env: ON)

    assert_match(/No live threads left. Deadlock\?/, result.err)
  end

  def test_whoever_traps_urg_keeps_it
    err = stderr("trap('URG') { warn 'trapped' }; plant { blocking { sleep 0.01 until told? } }")

    assert_match(/at an unknown place|at -e:2/, err)
    refute_match(/trapped/, err)
  end

  # When it was first looked at, it could have run: that is no verdict on all that follows.
  def test_who_seemed_to_have_no_core_is_looked_at_again
    err = stderr("trap('URG') { }; def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)\n" \
                 "plant { blocking { from = now; sleep 0.07; nil while now < from + 0.2; sleep 0.01 until told? } }")

    assert_match(/at an unknown place|at -e:3/, err)
  end

  # Nor is it lost: the next one there is told.
  def test_a_full_pipe_stops_nobody
    script = <<~'RUBY'
      require "io/nonblock"
      reader, writer = IO.pipe
      writer.write_nonblock("x" * 65_536)
      writer.nonblock = false
      $stderr.reopen(writer)
      CPU = Process::CLOCK_THREAD_CPUTIME_ID # time without a core does not count
      def stall = (from = Process.clock_gettime(CPU); nil while Process.clock_gettime(CPU) < from + 0.4)
      def run = NB.run { other = NB.async { sleep }; sleep 0.01; stall; other.cancel }
      run
      reader.read(65_536)
      run
      IO.select([reader], nil, nil, 10) # another thread writes
      puts reader.read_nonblock(65_536)
    RUBY
    result = Subprocess.ruby(script, env: ON, limit: 20)

    assert_predicate result.status, :success?, result.out
    assert_equal 1, result.out.scan("stood still").size, result.out
  end

  def test_what_is_no_number_is_refused
    ["abc", "-5", "1e9", ""].each do |value|
      result = Subprocess.ruby("NB.run { 1 }", env: { "NB_WATCHDOG" => value })

      refute_predicate result.status, :success?
      assert_match(/NB_WATCHDOG: must be 1 .* got: #{value.inspect}/, result.err)
    end
  end
end
# rubocop:enable Layout/LineLength
