# frozen_string_literal: true

require "minitest/autorun"
require "json"
require "neverblock"
require_relative "../support/subprocess"

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

# Where the time of a loop goes.
class ProfileTest < Minitest::Test
  parallelize_me! # each is a subprocess

  SHOW = <<~'RUBY'
    puts JSON.generate([$profile.totals, $profile.entries.map { |e| [e.kind, e.subject, e.times, e.total, e.longest, e.turn, e.place.to_s, e.fiber, e.frames.map(&:label)] }])
  RUBY
  Entry = Struct.new(:kind, :subject, :times, :total, :longest, :turn, :place, :fiber, :labels)

  # The script begins at line 1.
  def profile(script, **options)
    code = "#{script.chomp}\n#{SHOW}"
    result = Subprocess.ruby(code, limit: 60, options: %w[-rjson -rsocket -rdigest], **options)
    assert_predicate result.status, :success?, result.err
    assert_empty result.err
    totals, entries = JSON.parse(result.out)
    [totals.transform_keys(&:to_sym), entries.map { |entry| Entry.new(entry[0].to_sym, *entry.drop(1)) }]
  end

  def in_loop(script) = profile("$profile = NB::Profile.record { NB.run { #{script}\n} }")

  # What is planted on the first line waits 30 ms or longer, and comes first of all waits.
  WAITS = {
    sleep: ["NB.async { sleep 0.05 }", :sleep, ""],
    connection: ["S = TCPServer.new('127.0.0.1', 0); NB.async { c = S.accept; sleep 0.04; c << 'x'; c.close }; NB.async { TCPSocket.new('127.0.0.1', S.local_address.ip_port).read }", :io, "read 127.0.0.1"],
    unix_socket: ["A, B = UNIXSocket.pair; NB.async { A.read(1) }; NB.async { 2.times { sleep 0.02 }; B << 'x' }", :io, "read a UNIX socket"],
    pipe: ["A, B = IO.pipe; NB.async { A.read(1) }; NB.async { 2.times { sleep 0.02 }; B << 'x' }", :io, "read a pipe"],
    select: ["A, B = IO.pipe; NB.async { IO.select([A, STDERR]) }; NB.async { 2.times { sleep 0.02 }; B << 'x' }", :io, ""],
    queue: ["Q = Queue.new; NB.async { Q.pop }; NB.async { 2.times { sleep 0.02 }; Q << 1 }", :lock, "Thread::Queue"],
    mutex: ["M = Mutex.new; NB.async { M.synchronize { 3.times { sleep 0.02 } } }; NB.async { M.synchronize { } }", :lock, "Thread::Mutex"],
    condition: ["M = Mutex.new; C = ConditionVariable.new; NB.async { M.synchronize { C.wait(M) } }; NB.async { 3.times { sleep 0.02 }; C.signal }", :lock, ""],
    pool: ["P = NB::ConnectionPool.new(size: 1) { 1 }; NB.async { P.with { 3.times { sleep 0.02 } } }; NB.async { P.with { } }", :pool, ""],
    child: ["NB.async { Process.wait(spawn('sleep 0.1')) }", :process, ""],
    offload: ["NB.async { NB.offload { sleep 0.1 } }", :offload, ""]
  }.freeze

  WAITS.each do |name, (script, kind, subject)|
    define_method("test_#{name}_is_named_with_its_line") do
      _, entries = in_loop(script)
      found = entries.reject { |entry| %i[computes garbage gvl outside].include?(entry.kind) }.max_by(&:longest)
      assert_equal kind, found.kind, found.to_a.inspect
      assert_match(/\A#{subject}/, found.subject) unless name == :offload || name == :condition
      assert_match(/\A-e:1 \(block/, found.place)
      assert_equal "-e:1", found.fiber
      assert_operator found.longest, :>=, 0.03
      assert_operator found.total, :>=, found.longest
    end
  end

  # A woken fiber has its turn once the one that woke it has computed.
  def test_a_fibers_turn_is_told_apart_from_its_wait
    _, entries = in_loop("Q = Queue.new; NB.async { Q.pop }\nNB.async { Q << 1; t = Process.clock_gettime(2); nil until Process.clock_gettime(2) - t > 0.04 }")
    waited = entries.find { |entry| entry.place.start_with?("-e:1 ") && entry.kind == :lock }
    assert_equal 1, waited.times
    assert_operator waited.turn, :>=, 0.04
    assert_operator waited.turn, :>, waited.total
  end

  def test_what_computes_is_named_in_ruby_and_in_c
    totals, entries = in_loop("T = 'x' * 30_000_000; NB.async { Digest::SHA512.hexdigest(T * 2) }\nNB.async { i = 0; i += 1 while i < 6_000_000 }")
    computes = entries.select { |entry| entry.kind == :computes }
    in_c, in_ruby = [1, 2].map { |line| computes.select { |entry| entry.place.start_with?("-e:#{line} ") }.sum(&:total) }
    assert_operator in_c, :>, totals[:computed] * 0.2, computes.inspect
    assert_operator in_ruby, :>, totals[:computed] * 0.1, computes.inspect
    assert_in_delta totals[:computed], computes.sum(&:total), 0.05
  end

  def test_garbage_collection_is_told_apart
    totals, entries = in_loop("NB.async { A = Array.new(400_000) { 'x' }\n3.times { GC.start } }")
    collected = entries.select { |entry| entry.kind == :garbage && entry.place.start_with?("-e:2 ") }
    assert_operator collected.sum(&:times), :>=, 3
    assert_operator totals[:garbage], :>=, collected.sum(&:total) * 0.99
  end

  def test_the_threads_time_adds_up
    totals, = in_loop("NB.async { 5.times { sleep 0.02 } }; NB.async { 20_000.times.map(&:to_s) }")
    assert_in_delta totals[:took], totals.except(:took).values.sum, 0.02
    assert_operator totals[:slept], :>=, 0.05
  end

  def test_calls_outside_of_the_loop_and_waits_for_the_gvl
    skip "Ruby 3.1 does not tell" if RUBY_VERSION < "3.2"
    totals, entries = in_loop("Fiber.new(blocking: true) { sleep 0.06 }.resume\nThread.new { i = 0; i += 1 while i < 30_000_000 }; Thread.pass; i = 0; i += 1 while i < 9_000_000")
    outside = entries.find { |entry| entry.kind == :outside && entry.place.start_with?("-e:1 ") }
    assert_operator outside.total, :>=, 0.05
    assert_operator totals[:outside], :>=, 0.05
    assert_operator entries.select { |entry| entry.kind == :gvl && entry.place.start_with?("-e:2 ") }.sum(&:total), :>, 0.05
  end

  def test_time_of_other_threads_is_none_of_the_loops
    totals, = in_loop("10.times { sleep 0.01 }; NB.offload { t = Process.clock_gettime(3); nil until Process.clock_gettime(3) - t > 0.1 }")
    assert_operator totals[:computed], :<, 0.09
  end

  def test_a_wait_counts_that_has_not_ended_or_is_cancelled
    _, entries = profile(<<~'RUBY')
      NB.run do
        NB::Profile.start; a = NB.async { sleep 9 }
        b = NB.async { sleep 9 }
        sleep 0.03
        b.cancel; sleep 0.001
        $profile = NB::Profile.stop; a.cancel
      end
    RUBY
    [2, 3].each do |line|
      found = entries.select { |entry| entry.place.start_with?("-e:#{line} ") && entry.kind == :sleep }
      assert_equal [1], found.map(&:times)
      assert_operator found.first.longest, :>=, 0.03
    end
  end

  def test_the_second_one_knows_nothing_of_the_first
    _, entries = profile(<<~'RUBY')
      NB.run do
        tasks = [NB.async { sleep 9 }]
        NB::Profile.record { NB.async { 3.times { sleep 0.001 } }.wait; tasks << NB.async { sleep 9 }; sleep 0.001 }
        $profile = NB::Profile.record { sleep 0.002; tasks.each(&:cancel) }
      end
    RUBY
    assert_equal [["-e:4", 1]], entries.select { |entry| entry.kind == :sleep }.map { |entry| [entry.place[/-e:\d+/], entry.times] }
  end

  def test_one_after_the_other
    result = Subprocess.ruby("$stdout.sync = true; p Array.new(4) { NB::Profile.record { NB.run { sleep 0.001 } }.entries.count { |e| e.kind == :sleep } }; p NB::Profile.record.inspect rescue puts $!.message\nexec('grep', 'SigIgn', '/proc/self/status')")
    assert_equal ["[1, 1, 1, 1]", "NB::Profile.record needs a block"], result.out.lines(chomp: true).first(2), result.err
    assert_equal 0, result.out[/SigIgn:\s+(\h+)/, 1].hex & (1 << (Signal.list["PROF"] - 1))
  end

  def test_there_is_one_at_a_time_and_none_in_a_forked_child
    result = Subprocess.ruby(<<~'RUBY')
      p NB::Profile.stop
      NB::Profile.start
      begin; NB::Profile.start; rescue NB::Profile::BusyError => error; puts error.message; end
      pid = fork { NB.run { sleep 0.001 }; p NB::Profile.stop; exit!(0) }
      Process.wait(pid)
      p NB::Profile.stop.class
      trap(:PROF) { }
      begin; NB::Profile.start; rescue NB::Error => error; puts error.class; end
    RUBY
    assert_empty result.err
    assert_equal ["nil", "NB::Profile: this process is profiled already, or something else handles SIGPROF: end that first",
                  "nil", "NB::Profile", "NB::Profile::BusyError"], result.out.lines(chomp: true)
  end

  # Who finds a profile going on leaves it alone.
  def test_a_record_inside_another_leaves_that_one_alone
    result = Subprocess.ruby(<<~'RUBY')
      profile = NB::Profile.record do
        begin; NB::Profile.record { puts "ran" }; rescue NB::Profile::BusyError => error; puts error.class; end
        NB.run { sleep 0.01 }
      end
      p profile&.entries&.count { |entry| entry.kind == :sleep }
    RUBY
    assert_equal ["NB::Profile::BusyError", "1"], result.out.lines(chomp: true), result.err
  end

  def test_another_thread_ends_it_only_when_its_own_has_ended
    result = Subprocess.ruby(<<~'RUBY')
      NB::Profile.start
      puts Thread.new { NB::Profile.stop rescue $!.class }.value, Thread.new { NB::Profile.stop rescue $!.message }.value
      p NB::Profile.stop.totals[:computed] < 60
      Thread.new { NB::Profile.start; 200_000.times { "a" + "b" } }.join
      GC.start
      p NB::Profile.stop.totals.values.all? { |seconds| seconds.between?(0, 60) }
    RUBY
    assert_equal ["NB::WrongThreadError", "NB::Profile.stop: the profile is of another thread: stop it there", "true", "true"],
                 result.out.lines(chomp: true), result.err
  end

  # The kernel numbers timers of a process from 0: that one is Ruby 3.1's own.
  def test_takes_no_timer_away_when_it_gets_none
    skip "of Linux only" unless RUBY_PLATFORM.include?("linux")
    result = Subprocess.ruby(<<~'RUBY')
      Process.setrlimit(11, 0, 0) # RLIMIT_SIGPENDING
      begin; NB::Profile.start; rescue Errno::EAGAIN => error; puts error.class; end
      system("true")
    RUBY
    assert_predicate result.status, :success?, result.err
    assert_equal "Errno::EAGAIN\n", result.out
  end

  # Frames of code that is gone, while the collector moves objects.
  def test_survives_compaction_and_code_that_is_gone
    _, entries = in_loop(<<~'RUBY')
      40.times.map { |i| NB.async { eval("sleep 0.001; #{i}.times { Array.new(20) { 'x' } }; sleep 0.001", nil, "gone#{i}", 1); GC.start; GC.compact if GC.respond_to?(:compact) } }.each(&:wait)
    RUBY
    assert_equal (0...40).map { |i| "gone#{i}:1" }, entries.select { |e| e.kind == :sleep }.map { |e| e.place[/gone\d+:1/] }.uniq.compact.sort_by { |s| s[/\d+/].to_i }
  end

  def test_a_working_directory_that_was_deleted
    result = Subprocess.ruby(<<~'RUBY')
      require "tmpdir"
      profile = NB::Profile.record do
        Dir.rmdir(Dir.mktmpdir.tap { |folder| Dir.chdir(folder) })
        NB.run { NB.async { sleep 0.001 } }
      end
      puts profile.entries.map(&:kind).include?(:sleep)
    RUBY
    assert_equal "true\n", result.out, result.err
  end

  def test_more_stacks_than_are_kept_are_one_row
    _, entries = in_loop('eval(Array.new(600) { "NB.async { #{"sleep 0\n" * 30} }\n" }.join)')
    assert_operator entries.sum(&:times), :>=, 18_000
    assert_equal 1, entries.count { |entry| entry.kind == :other }
  end

  def test_the_report_and_the_flame_graph
    result = Subprocess.ruby(<<~'RUBY')
      profile = NB::Profile.record { NB.run { 3.times { NB.async { sleep 0.03 } }; sleep 0.02; sleep 0.02; GC.start } }
      puts profile.speedscope, profile
    RUBY
    assert_empty result.err
    json, text = result.out.split("\n", 2)
    graph = JSON.parse(json)
    frames = graph["shared"]["frames"].map { |frame| frame["name"] }
    fibers, thread = graph["profiles"]
    graph["profiles"].each do |one|
      assert_equal %w[sampled microseconds 0], one.values_at("type", "unit", "startValue").map(&:to_s)
      assert_equal one["weights"].sum, one["endValue"]
      assert_equal one["weights"].size, one["samples"].size
      assert(one["samples"].flatten.all? { |number| number < frames.size })
    end
    asleep = fibers["samples"].each_index.select { |index| frames[fibers["samples"][index].last] == "(sleep)" }
    stacks = asleep.to_h { |index| [fibers["samples"][index].map { |number| frames[number] }, index] }
    sleeping = stacks.fetch(["-e:1", "block (4 levels) in <main>", "Kernel#sleep", "(sleep)"])
    assert_operator fibers["weights"][sleeping], :>=, 45_000
    assert_includes thread["samples"].map { |stack| frames[stack.last] }, "(garbage collection)"
    assert_match(/\AProfile of pid \d+: \d+\.\d+ s$/, text)
    assert_match(/^ +0\.[0-9]\d\d s +\d+\.\d %  slept: nothing to do$/, text)
    assert_match(/^ +0\.\d\d\d +0\.\d\d\d +3  sleep  -e:1 \(block \(4 levels\) in <main>\)$/, text)
  end
end
# rubocop:enable Layout/LineLength
