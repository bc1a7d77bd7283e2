# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "program"
require_relative "../support/subprocess"

# Signals in the first moments of a process, and what happens while a program loads.
class ServerBirthsTest < Minitest::Test
  include ServerProgram

  # Has each worker run the code first of all: Ruby calls _fork before anything else.
  def at_birth(code)
    <<~RUBY
      workers 1
      Process.singleton_class.prepend(Module.new do
        def _fork = super.tap { |pid| pid.zero? && instance_eval { #{code} } }
      end)
    RUBY
  end

  # Starts without waiting until it serves.
  def begin_to(*flags, config: "")
    File.write("#{@dir}/nb.rb", config)
    @pid = spawn(*nb("serve", "-b", "unix://#{@socket}", *flags), chdir: @dir, out: @log,
                 err: %i[child out], pgroup: true)
  end

  def test_a_worker_keeps_what_comes_before_it_can_answer
    start(config: at_birth("%w[HUP PWR USR1 USR2 TTIN TTOU].each { |s| Process.kill(s, Process.pid) }"))
    assert_equal pids.first, get
    refute_match(/died/, log)
    assert_predicate finish, :success?
  end

  # As Ruby 3.4's child of a process with several threads does now and then.
  def test_a_worker_that_hangs_in_its_fork_is_replaced
    File.write("#{@dir}/hangs", "")
    start(config: at_birth("File.exist?('hangs') && File.delete('hangs') && Process.kill('STOP', $$)"))
    assert_equal pids.first, get
    assert_match(/worker 0 \(\d+\): did not begin within 10 s .*, killing it$/, log)
    assert_predicate finish, :success?
  end

  # Else the loop stands still when its 257th, 513th and so on is opened.
  def test_who_serves_has_room_for_descriptors
    [0, 1].each do |workers|
      start("-w", workers.to_s)
      room = File.read("/proc/#{get}/status")[/^FDSize:\s+(\d+)/, 1].to_i
      assert_operator room, :>=, [Process.getrlimit(:NOFILE).last, 16_384].min
      assert_predicate finish, :success?
    end
  end

  def test_term_ends_a_worker_just_born
    start(config: at_birth("File.write('born', '.', mode: 'a'); Process.kill('TERM', $$) if File.size('born') == 1"))
    assert_equal pids.first, get
    assert_equal "..", File.read("#{@dir}/born")
    refute_match(/died/, log)
    assert_predicate finish, :success?
  end

  # Blocks TERM, gets it, becomes the program: Ruby 3.1 unblocks it before it has made its thread.
  BLOCKED = <<~RUBY
    require "fiddle"
    call = ->(name, *types) { Fiddle::Function.new(Fiddle.dlopen(nil)[name], types, Fiddle::TYPE_INT) }
    set = [1 << (Signal.list.fetch("TERM") - 1), *[0] * 15].pack("Q*")
    call.("pthread_sigmask", Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_VOIDP).(0, set, nil)
    call.("raise", Fiddle::TYPE_INT).(Signal.list.fetch("TERM"))
    exec(*ARGV)
  RUBY

  # Some Rubies act on it themselves, with an exit status of 1.
  def test_term_that_ruby_gets_before_it_can_hand_it_over
    @pid = spawn(RbConfig.ruby, "-e", BLOCKED, *nb("serve", "-b", "unix://#{@socket}"), chdir: @dir,
                 out: @log, err: %i[child out], pgroup: true)
    assert_includes [0, 1], ended(20).exitstatus, log
  end

  def test_term_in_the_middle_of_a_birth
    start(config: at_birth(<<~RUBY))
      next if File.exist?("born") # the second goes on
      File.write("born", "")
      TracePoint.new(:c_call) { |call| Process.kill("TERM", $$) if call.method_id == :keep_if }.enable
    RUBY
    assert_equal pids.first, get
    refute_match(/died|SignalException/, log)
    assert_predicate finish, :success?
  end

  def test_term_between_two_births
    config = "workers 2\nbefore_fork { Process.kill('TERM', Process.pid) }"
    begin_to(config: config)
    assert_predicate ended, :success?
  end

  [[], %w[-w 1]].each do |flags|
    name = flags.empty? ? "one_process" : "cluster"

    define_method("test_the_others_do_not_end_a_program_that_loads_#{name}") do
      File.write("#{@dir}/config.ru", "%w[HUP PWR TTIN TTOU].each { |s| Process.kill(s, $$) }\n#{RACKUP}")
      start(*flags)
      assert_equal pids.first, get
      assert_predicate finish, :success?
    end

    define_method("test_term_ends_a_program_that_loads_#{name}") do
      File.write("#{@dir}/config.ru", "File.write('loads', '')\nsleep\n")
      begin_to(*flags)
      eventually { File.exist?("#{@dir}/loads") }
      Process.kill("TERM", @pid)
      assert_predicate ended, :success?
      refute File.exist?(@socket)
      refute File.exist?("#{@dir}/control.sock")
    end

    define_method("test_a_child_of_the_application_ends_as_any_#{name}") do
      start(*flags, config: "on_worker_boot { File.write('child', fork { sleep }) }")
      child = Integer(File.read("#{@dir}/child"))
      Process.kill("TERM", child)
      eventually { !alive?(child) || File.read("/proc/#{child}/stat")[/\) Z /] }
      assert_predicate finish, :success?
    end
  end

  def test_what_comes_before_another_program_takes_over_goes_with_it
    script = <<~RUBY
      require "neverblock/server/signals"
      signals = NB::Server::Signals
      signals.keep
      if ARGV.empty?
        Process.kill("HUP", Process.pid)
        environment = signals.pass_on
        Process.kill("USR1", Process.pid)
        exec(environment, "#{RbConfig.ruby}", *$LOAD_PATH.map { |path| "-I" + path }, __FILE__, "again")
      end
      signals.receive { |name| print name }
    RUBY
    File.write("#{@dir}/script.rb", script)
    result = Subprocess.run({}, [RbConfig.ruby, "-I", Subprocess::LIB, "#{@dir}/script.rb"], 20)
    assert_equal ["HUP", ""], [result.out, result.err]
  end

  # As Ruby leaves itself when a signal breaks off the loading of its encodings.
  def dropped(exits)
    script = <<~RUBY
      print ENV["NB_SIGNALS"]
      Encoding.send(:remove_const, :UTF_8) unless ENV["NB_SIGNALS"]
      require "neverblock/server/signals"
      NB::Server::Signals.keep(exits: #{exits})
      NB::Server::Signals.receive { |name| print " received ", name }
      print " served"
    RUBY
    File.write("#{@dir}/script.rb", script)
    Subprocess.run({}, [RbConfig.ruby, "-I", Subprocess::LIB, "#{@dir}/script.rb"], 20)
  end

  def test_what_ruby_drops_while_it_starts_ends_a_program_that_serves_nobody
    result = dropped(true)
    assert_equal ["", "", 0], [result.out, result.err, result.status.exitstatus]
  end

  def test_what_ruby_drops_while_it_starts_comes_to_a_new_start_where_workers_serve
    result = dropped(false)
    assert_equal ["TERM received TERM served", ""], [result.out, result.err]
  end

  # The second program that reads it waits for the file "go".
  SLOW = <<~RUBY
    second = File.exist?("first") || !File.write("first", "")
    File.write("second", "") if second
    sleep 0.01 until File.exist?("go") if second
  RUBY

  def start_slow(*flags)
    File.write("#{@dir}/config.ru", SLOW + RACKUP)
    start("-w", "1", *flags)
    pids.first
  end

  # USR2, until the new program reads the application.
  def execute_again
    Process.kill("USR2", @pid)
    eventually { File.exist?("#{@dir}/second") }
  end

  def test_the_old_serve_while_the_new_program_loads
    old = start_slow
    execute_again
    3.times { assert_equal old, get }
    sleep 1.5 # the old worker reports each second, and its master does not listen
    assert_equal [old, true], [get, ready?]
    go
    eventually { (now = pids).any? && !now.include?(old) }
    eventually { !alive?(old) }
    assert_equal pids.first, get
    assert_predicate finish, :success?
    refute File.exist?(@socket)
  end

  def test_term_while_the_new_program_loads
    old = start_slow
    execute_again
    Process.kill("TERM", @pid)
    assert_predicate ended, :success?
    refute alive?(old)
    refute File.exist?(@socket)
  end

  def test_a_new_program_that_does_not_load_leaves_the_old_workers
    start("-w", "1")
    old = get
    File.write("#{@dir}/config.ru", "raise 'no such luck'")
    Process.kill("USR2", @pid)
    eventually { log.include?("the old workers continue") }
    assert_includes log, "no such luck"
    assert_equal [old, true], [get, ready?]
    File.write("#{@dir}/config.ru", RACKUP)
    Process.kill("USR2", @pid)
    eventually { (now = pids).any? && !now.include?(old) }
    eventually { !alive?(old) }
    assert_equal pids.first, get
    finish
  end

  def test_usr2_to_a_program_that_has_workers_no_more
    start(config: "workers 1")
    old = get
    File.write("#{@dir}/nb.rb", "")
    Process.kill("USR2", @pid)
    eventually { !alive?(old) }
    assert_equal @pid, get
    assert_predicate finish, :success?
  end

  # As Puma and Unicorn have it: a deployment moves the link, and what the application has read into
  # its environment is read anew. What the hook sets is for the next program.
  def test_usr2_starts_in_the_folder_and_environment_of_the_first_start
    releases = %w[1 2].map { |name| "#{@dir}/#{name}" }
    releases.each do |folder|
      Dir.mkdir(folder)
      File.write("#{folder}/config.ru", <<~RUBY)
        ENV["SEEN"] = [ENV["SEEN"], ENV["HOOK"], Dir.pwd].compact.join(" ")
        Dir.chdir("/")
        run ->(_env) { [200, {}, [ENV["SEEN"]]] }
      RUBY
    end
    File.symlink(releases.first, "#{@dir}/current")
    File.write("#{@dir}/nb.rb", "workers 1\non_restart { ENV['HOOK'] = 'hook' }\n")
    launch(*nb("serve", "-b", "unix://#{@socket}"), env: {"PWD" => "#{@dir}/current"}, chdir: "#{@dir}/current")
    assert_equal File.realpath(releases.first), body
    File.unlink("#{@dir}/current")
    File.symlink(releases.last, "#{@dir}/current")
    Process.kill("USR2", @pid)
    # The old worker answers, too, until it has gone.
    answer = eventually { body.then { |told| told unless told == File.realpath(releases.first) } }
    assert_equal "hook #{File.realpath(releases.last)}", answer
  end

  # The environment of the application, and of what it starts.
  def test_nothing_of_the_handover_is_left_for_others
    File.write("#{@dir}/config.ru", <<~'RUBY')
      run lambda { |env|
        names = (ENV.keys.grep(/\ANB_|\ALISTEN/) - %w[NB_DEV NB_COMPLETE NB_RUBIES NB_CHAOS NB_PATIENCE NB_GC NB_MACHINE NB_WATCHDOG NB_BACKEND NB_PORTABLE NB_SANITIZE]).join(" ")
        open = IO.popen(["ls", "-l", "/proc/self/fd"], &:read).scan("socket:").size
        [200, {"content-type" => "text/plain"}, ["#{names} #{open} #{env["PATH_INFO"] == "/" ? Process.pid : 0}"]]
      }
    RUBY
    start("-w", "1")
    2.times do
      old = get
      answer = UNIXSocket.open(@socket) { |io| io.write("GET /x HTTP/1.0\r\n\r\n") && io.read }
      assert_match(/\r\n\r\n 0 0\z/, answer)
      Process.kill("USR2", @pid)
      eventually { (now = pids).any? && !now.include?(old) && !alive?(old) }
    end
    finish
  end

  def test_children_of_the_program_before_usr2_leave_no_zombie
    start(config: <<~RUBY)
      workers 1
      before_fork { File.write("child", spawn("sleep", "60")) unless File.exist?("child") }
    RUBY
    old = get
    Process.kill("USR2", @pid)
    eventually { (now = pids).any? && !now.include?(old) && !alive?(old) }
    child = Integer(File.read("#{@dir}/child"))
    Process.kill("KILL", child)
    eventually { !File.exist?("/proc/#{child}") }
    finish
  end

  def test_workers_end_without_their_master
    File.write("#{@dir}/config.ru", "require 'neverblock'\n#{RACKUP.sub("sleep 0.3", "NB.async { sleep }")}")
    start("-w", "2", config: "drain_timeout 1")
    assert_kind_of Integer, get("/slow")
    all = eventually { (now = pids).size == 2 && now }
    Process.kill("KILL", @pid)
    Process.wait(@pid)
    eventually { all.none? { |pid| alive?(pid) } }
    refute File.exist?(@socket)
  ensure
    @pid = nil
  end

  # Otherwise it would hold the listeners, and nobody could start the server again.
  def test_a_worker_whose_loop_stands_still_ends_without_its_master
    File.write("#{@dir}/config.ru", "run ->(_env) { File.write('stuck', ''); loop {} }")
    start("-w", "1", config: "drain_timeout 0.1")
    worker = pids.first
    UNIXSocket.open(@socket) do |client|
      client.write("GET / HTTP/1.0\r\n\r\n")
      eventually { File.exist?("#{@dir}/stuck") }
      Process.kill("KILL", @pid)
      Process.wait(@pid)
      eventually { !alive?(worker) }
    end
    refute File.exist?(@socket)
  ensure
    @pid = nil
    Process.kill("KILL", worker) if alive?(worker)
  end

  # A terminal sends it to all of them.
  def test_int_to_the_whole_group_waits_for_what_runs
    start("-w", "1")
    answer = Thread.new { get("/wait") }
    eventually { stats["workers"].sum { |worker| worker["running"].to_i } == 1 }
    Process.kill("INT", -@pid)
    eventually { !ready? }
    go
    assert_kind_of Integer, answer.value
    assert_predicate ended, :success?
  end

  # The next program in the master's place begins to end, and is not ours yet: it answers nobody.
  DYING = <<~RUBY
    if ENV["NB_OLD_WORKERS"]
      trap("INT") { File.write("dying", ""); sleep 0.01 until File.exist?("die"); exit!(1) }
      File.write("begun", "")
      sleep
    end
  RUBY

  def test_int_to_the_whole_group_while_a_program_replaces_the_master
    File.write("#{@dir}/dying.rb", DYING)
    File.write("#{@dir}/nb.rb", "")
    launch(*nb("serve", "-b", "unix://#{@socket}", "-w", "1"), env: {"RUBYOPT" => "-r#{@dir}/dying"})
    kept = Thread.new { get("/wait") }
    eventually { stats["workers"].sum { |worker| worker["running"].to_i } == 1 }
    Process.kill("USR2", @pid)
    eventually { File.exist?("#{@dir}/begun") }
    Process.kill("INT", -@pid)
    eventually { File.exist?("#{@dir}/dying") }
    late = Thread.new { get }
    assert late.join(60), "nobody answers who comes before the master has ended"
    File.write("#{@dir}/die", "")
    go
    assert_equal [kept.value] * 2, [kept.value, late.value]
    assert_equal 1, ended.exitstatus
    eventually { !File.exist?(@socket) }
  end

  def test_a_worker_that_does_not_end_is_killed
    start("-w", "1", config: "drain_timeout 0.1")
    Process.kill("STOP", pids.first)
    Process.kill("TERM", @pid)
    assert_predicate ended, :success?
    assert_match(/did not end in its time, killing it/, log)
  end

  def test_a_fiber_that_rescues_every_cancel_does_not_keep_a_process
    File.write("#{@dir}/config.ru", <<~'RUBY')
      require "neverblock"
      run lambda { |_env|
        NB.async do
          sleep
        rescue NB::Cancelled
          retry
        end
        [200, {"content-type" => "text/plain"}, ["1"]]
      }
    RUBY
    start("--pidfile", "#{@dir}/pid", config: "drain_timeout 0.1")
    assert_equal 1, get
    refute_predicate finish, :success?
    assert_match(/did not end within 5.1 s/, log)
    left = %w[app.sock control.sock pid].select { |name| File.exist?("#{@dir}/#{name}") }
    assert_empty left
  end
end
# rubocop:enable Layout/LineLength
