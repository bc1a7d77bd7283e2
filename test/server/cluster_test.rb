# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "pty"
require_relative "program"
require "neverblock/server"
require "neverblock/server/cluster"
require "neverblock/server/config"
require_relative "../support/ports"

# Workers of `nb serve`: replaced, stuck, one more, one less, and none of it lost.
class ServerClusterTest < Minitest::Test
  include ServerProgram

  # Asks all the time; returns how many answers were missing.
  def under_load
    failed = count = 0
    over = false
    asking = Thread.new do
      until over
        count += 1
        failed += 1 unless begin
          get
        rescue SystemCallError
          nil
        end
      end
    end
    yield
    over = true
    asking.join
    assert_operator count, :>, 10
    failed
  end

  def test_single_process
    start
    assert_equal @pid, get
    assert_equal 1, stats["workers"].size
    assert_predicate finish, :success?
    refute File.exist?(@socket)
  end

  # Some libraries ask whether what they keep in memory is all there is.
  def test_the_application_knows_whether_it_has_siblings
    File.write("#{@dir}/config.ru", 'run ->(env) { [200, {}, [env["rack.multiprocess"] ? "1" : "0"]] }')
    {[] => 0, %w[-w 1] => 1, %w[-w 2] => 1}.each do |flags, answer|
      start(*flags)
      assert_equal answer, get, flags.inspect
      finish
    end
  end

  # In containers, Rails logs to the standard output.
  def test_what_the_application_prints_is_there_with_its_response
    File.write("#{@dir}/config.ru", "run ->(env) { puts 'a line'; [200, {}, [Process.pid.to_s]] }")
    [[], %w[-w 1]].each do |flags|
      start(*flags)
      get
      assert_includes log.lines, "a line\n", flags.inspect
      finish
    end
  end

  # As under Puma; otherwise it would go on unseen, and keep its port.
  def test_a_server_ends_with_its_terminal
    @log = File::NULL
    [[], %w[-w 1]].each do |flags|
      terminal, inner = PTY.open
      start("--access-log", "access.log", *flags, in: inner, out: inner, err: inner)
      File.delete("#{@dir}/access.log")
      Process.kill("HUP", @pid)
      eventually { File.exist?("#{@dir}/access.log") }
      assert_kind_of Integer, get
      [terminal, inner].each(&:close)
      2.times { Process.kill("HUP", @pid) } # from the terminal, and from the shell
      assert_predicate ended, :success?
    end
  end

  # In the master, on which the workers depend. As under Puma, the others of the hook are called.
  def test_a_hook_that_fails_is_reported_and_ends_nothing
    config = %w[before_fork on_booted on_restart].map do |hook|
      "#{hook} { raise 'no #{hook}' }\n#{hook} { File.write('#{hook}', '.', mode: 'a') }\n"
    end
    start("-w", "1", config: config.join)
    first = get
    Process.kill("USR2", @pid)
    second = eventually { (pids - [first]).first }
    eventually { get == second }
    eventually { %w[before_fork on_booted].map { |hook| File.read("#{@dir}/#{hook}") } == %w[.. ..] }
    assert_equal ".", File.read("#{@dir}/on_restart")
    %w[before_fork on_booted on_restart].each { |hook| assert_match(/^the hook #{hook} failed: .*no #{hook} \(RuntimeError\)/, log) }
    assert_predicate finish, :success?
  end

  # With a status that tells of no failure, too.
  def test_an_application_that_exits_while_it_loads_is_not_started_in_a_storm
    {"exit" => "ended at once", "exit!(true)" => "ended at once", "abort" => "died"}.each do |word, said|
      File.write("#{@dir}/config.ru", "File.write('starts', \"\#{Process.clock_gettime(Process::CLOCK_MONOTONIC)}\\n\", mode: 'a')\n#{word}\n")
      File.write("#{@dir}/nb.rb", "preload_app! false\n")
      FileUtils.rm_f("#{@dir}/starts")
      @pid = spawn(*nb("serve", "-b", "unix://#{@socket}", "-w", "1"), chdir: @dir, out: @log, err: %i[child out], pgroup: true)
      starts = eventually { starts_of_workers.then { |times| times if times.size >= 3 } }
      assert_operator starts[2] - starts[0], :>=, 1.9, word
      assert_match(/^worker 0 \(\d+\) #{said}: pid/, log)
      finish
    end
  end

  # After USR2, old workers end as soon as they have drained, such as one that TTOU ended before.
  def test_a_worker_of_the_program_before_has_not_ended_at_once
    reader, writer = IO.pipe
    before = NB::Server::WorkerProcess.new(0, Process.pid, reader, ready: true)
    newborn = NB::Server::WorkerProcess.new(0, Process.pid, reader, begun: false)
    assert_equal [false, true], [before, newborn].map(&:ended_at_once?)
  ensure
    [reader, writer].each(&:close)
  end

  def starts_of_workers
    File.readlines("#{@dir}/starts").map { |line| Float(line) }
  rescue SystemCallError
    []
  end

  def test_term_waits_for_what_runs
    start("-w", "2")
    assert_term_waits
  end

  # As under Puma: agents send there what they have kept.
  def test_workers_run_the_at_exit_blocks
    File.write("#{@dir}/config.ru", "at_exit { File.write('ends', Process.pid.to_s + ' ', mode: 'a') }\n#{RACKUP}")
    [true, false].each do |preload|
      start("-w", "2", config: "preload_app! #{preload}")
      expected = eventually { (now = pids).size == 2 && now }
      expected << @pid if preload
      assert_predicate finish, :success?
      assert_equal expected.sort, File.read("#{@dir}/ends").split.map(&:to_i).sort
      File.delete("#{@dir}/ends")
    end
  end

  # A UNIX listener that lets nobody in any more counts as readable.
  def test_term_starts_no_worker_for_nobody
    start("-w", "2", config: "on_worker_boot { File.write('boots', 'x', mode: 'a') }")
    eventually { workers.size == 2 }
    get
    assert_predicate finish, :success?
    assert_equal "xx", File.read("#{@dir}/boots")
  end

  def test_a_killed_worker_is_replaced
    start("-w", "2")
    eventually { workers.size == 2 }
    killed = workers.first["pid"]
    Process.kill("KILL", killed)
    eventually { (now = serving_pids).size == 2 && !now.include?(killed) }
    assert_match(/died: .*KILL/, File.read(@log))
    finish
  end

  # The reader of a pipe has ended, or the disk is full.
  def test_messages_that_cannot_be_written_end_nothing
    reader, pipe = IO.pipe
    reader.close
    [pipe, File.open("/dev/full", "w")].each do |lost|
      start("-w", "1", out: lost, err: lost)
      old = pids
      Process.kill("KILL", *old)
      eventually { (now = pids).any? && now != old }
      %w[PWR HUP TTIN].each { |name| Process.kill(name, @pid) }
      eventually { pids.size == 2 }
      assert_includes pids, get
      assert_predicate finish, :success?
    ensure
      lost.close
    end
  end

  def test_usr1_replaces_all_workers_without_a_failed_request
    start("-w", "2")
    old = eventually { (now = serving_pids).size == 2 && now }
    failed = under_load do
      Process.kill("USR1", @pid)
      eventually { (now = serving_pids).size == 2 && (now & old).empty? }
    end
    assert_equal 0, failed
    finish
  end

  # Those that begin take their time, so that the order is seen.
  def test_usr1_starts_a_worker_before_it_ends_one
    File.write("#{@dir}/config.ru", "sleep 0.3; File.write('order', 'b', mode: 'a')\n#{RACKUP}")
    start("-w", "2", config: <<~RUBY)
      preload_app! false
      on_worker_shutdown { File.write("order", "e", mode: "a") }
    RUBY
    eventually { serving_pids.size == 2 }
    Process.kill("USR1", @pid)
    eventually { File.size("#{@dir}/order") == 6 }
    assert_equal "bbbebe", File.read("#{@dir}/order")
    finish
  end

  def test_usr2_replaces_the_master_without_a_failed_request
    start("-w", "2")
    old = eventually { (now = serving_pids).size == 2 && now }
    failed = under_load do
      Process.kill("USR2", @pid)
      eventually { (now = pids).size == 2 && (now & old).empty? }
      eventually { old.none? { |pid| alive?(pid) } }
    end
    assert_equal 0, failed
    finish
  end

  # The first that loads it waits. RubyGems stands no exception in the middle of a require.
  STRUCK = <<~RUBY
    begin
      File.write("loads", "") && sleep unless File.exist?("loads")
    rescue Exception
      File.write("struck", "")
      raise
    end
  RUBY

  def assert_not_struck
    eventually { File.exist?("#{@dir}/loads") }
    assert_predicate finish, :success?
    refute File.exist?("#{@dir}/struck")
    refute File.exist?(@socket)
  end

  def test_no_exception_strikes_what_a_master_loads
    File.write("#{@dir}/config.ru", STRUCK + RACKUP)
    File.write("#{@dir}/nb.rb", "preload_app!")
    @pid = spawn(*nb("serve", "-b", "unix://#{@socket}", "-w", "1"),
      chdir: @dir, out: @log, err: %i[child out], pgroup: true)
    assert_not_struck
  end

  def test_no_exception_strikes_what_a_master_loads_after_usr2
    start("-w", "1", config: "preload_app!")
    old = pids.first
    File.write("#{@dir}/config.ru", STRUCK + RACKUP)
    Process.kill("USR2", @pid)
    assert_not_struck
    refute alive?(old)
  end

  # A busy machine may let one of the workers run for a while and the other not.
  BURSTS = 10

  # Without the courtesy of one worker to the other, one of them had all 64 in every try.
  def test_a_burst_of_connections_is_shared_out
    port = Ports.free
    start("-w", "2", "-b", "tcp://127.0.0.1:#{port}")
    eventually { workers.size == 2 }
    shares = Array.new(BURSTS) do
      sockets = Array.new(64) { TCPSocket.new("127.0.0.1", port) }
      sockets.each { |socket| socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n") }
      answers = sockets.map { |socket| socket.readpartial(1000)[/\d+\z/].to_i }
      sockets.each(&:close)
      counts = answers.tally.values
      counts.size == 2 ? counts.min : 0
    end
    assert_operator shares.max, :>=, 8, "the smaller share of 64, in several tries: #{shares}"
    finish
  end

  def test_ttin_and_ttou
    start("-w", "1")
    Process.kill("TTIN", @pid)
    eventually { workers.size == 2 }
    Process.kill("TTOU", @pid)
    eventually { workers.size == 1 }
    finish
  end

  # A thousand processes would prove the same.
  def test_ttin_ends_at_the_most
    most = NB::Server::Config::WORKERS_MOST
    config = NB::Server::Config.new(environment: {}).tap { |one| one.workers(most - 1) }
    out = StringIO.new
    cluster = NB::Server::Cluster.new(config, nil, out, nil)
    3.times { cluster.__send__(:handle, "TTIN") }
    assert_equal most, cluster.instance_variable_get(:@size)
    assert_equal "TTIN: 1024 at most\n" * 2, out.string
  end

  # Those that are told to go have requests, and take their time.
  def test_each_ttou_ends_another_worker
    start("-w", "3")
    eventually { pids.size == 3 }
    answers = []
    eventually do
      answers << Thread.new { get("/wait") }
      sleep 0.05
      stats["workers"].all? { |worker| worker["running"].to_i.positive? }
    end
    2.times do |time|
      Process.kill("TTOU", @pid)
      eventually { stats["size"] == 2 - time }
    end
    go
    answers.each(&:join)
    eventually { stats["workers"].size == 1 }
    finish
  end

  # A thread in the master may have children of its own.
  def test_a_master_leaves_the_children_of_others_alone
    start("-w", "1", config: <<~RUBY)
      Thread.new do
        100.times do
          pid = spawn("true")
          sleep 0.01 # it ends, and the master is told
          Process.wait(pid)
          File.write("waited", "x", mode: "a")
        end
        File.write("done", "")
      rescue SystemCallError => error
        File.write("done", error.message)
      end
    RUBY
    eventually { File.exist?("#{@dir}/done") && File.size?("#{@dir}/waited") }
    assert_equal "", File.read("#{@dir}/done")
    finish
  end

  # As in Puma, a worker counts as gone whoever has waited for it.
  def test_a_worker_for_which_another_thread_has_waited_is_replaced
    start("-w", "1", config: <<~RUBY)
      Thread.new do
        loop do
          File.write("waited", Process.wait.to_s)
        rescue Errno::ECHILD
          sleep 0.01
        end
      end
    RUBY
    20.times do # until the thread was the first
      gone = eventually { pids.first }
      Process.kill("KILL", gone)
      eventually { (now = pids).any? && !now.include?(gone) }
      refute_includes stats["workers"].map { |worker| worker["pid"] }, gone
      break if File.exist?("#{@dir}/waited")
    end
    assert File.exist?("#{@dir}/waited")
    assert_predicate finish, :success?
  end

  def test_a_stuck_worker_is_killed
    start("-w", "1", config: "worker_timeout 1.5")
    first = workers.first["pid"]
    asking = Thread.new { get("/stuck") }
    eventually { workers.any? { |worker| worker["pid"] != first } }
    asking.report_on_exception = false
    begin
      asking.join
    rescue SystemCallError
      nil # reset when the worker was killed
    end
    assert_match(/^worker 0 \(#{first}\): its loop has not turned for \d+ s \(worker_timeout\), killing it$/, log)
    finish
  end

  def test_a_worker_that_loads_for_too_long_is_killed
    File.write("#{@dir}/config.ru", "sleep unless File.exist?('go')\n#{RACKUP}")
    File.write("#{@dir}/nb.rb", "preload_app! false\nworker_timeout 1.5")
    @pid = spawn(*nb("serve", "-b", "unix://#{@socket}", "-w", "1"), chdir: @dir, out: @log, err: %i[child out], pgroup: true)
    eventually { log.match?(/^worker 0 \(\d+\): it has not begun to serve for \d+ s \(worker_timeout\), killing it$/) }
    go
    eventually { ready? }
    finish
  end

  # Ctrl-Z, and fg after more than worker_timeout; or a container that was paused. The master, which
  # goes on first, has looked at all workers when a new one serves.
  def test_workers_that_were_stopped_with_their_master_go_on
    start("-w", "1", config: "worker_timeout 5")
    worker = pids.first
    [@pid, worker].each { |pid| Process.kill("STOP", pid) }
    sleep 6 # longer than worker_timeout
    Process.kill("CONT", @pid)
    Process.kill("TTIN", @pid)
    eventually { pids.size == 2 }
    Process.kill("CONT", worker)
    eventually { stats["workers"].all? { |one| one["heard_s"] < 2 } }
    assert_includes pids, worker
    refute_match(/killing it/, log)
    finish
  end

  def test_max_memory_replaces_a_worker
    start("-w", "1", config: "max_memory_mb 300")
    first = workers.first["pid"]
    assert_equal first, get
    assert_equal first, get("/grow")
    eventually { workers.any? { |worker| worker["pid"] != first } }
    eventually { !alive?(first) }
    assert_equal pids.first, get
    finish
  end

  def test_max_requests_replaces_a_worker
    start("-w", "1", config: "max_requests 5")
    first = workers.first["pid"]
    6.times { get }
    eventually { workers.any? { |worker| worker["pid"] != first } }
    finish
  end
end
# rubocop:enable Layout/LineLength
