# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require "open3"
require "socket"
require "tmpdir"
require "timeout"
require_relative "../support/patience"

# Puma itself, started as a program, with one line more in its configuration.
class PumaPluginTest < Minitest::Test
  include Patience

  CONFIG = <<~RUBY.freeze
    require "#{File.expand_path("../support/puma_stop", __dir__)}"
    threads 1, 1
    plugin :neverblock
    quiet
  RUBY
  RACKUP = <<~'RUBY'
    $running = $together = 0
    run(lambda do |env|
      $running += 1
      File.write("begun", "") if env["PATH_INFO"] == "/held"
      sleep(Float(env["QUERY_STRING"])) if %w[/sleep /held].include?(env["PATH_INFO"])
      if env["PATH_INFO"] == "/together" # nobody is answered before twenty have come
        $together += 1
        sleep 0.001 until $together >= 20
      end
      Fiber.scheduler.fiber_interrupt(Fiber.current, RuntimeError.new("late")) if env["PATH_INFO"] == "/late"
      raise "oops" if env["PATH_INFO"] == "/raise"
      next [200, {}, Enumerator.new { |y| y << "a"; exit }] if env["PATH_INFO"] == "/exit"
      next [200, {}, Enumerator.new { |y| y << "a"; raise NoMemoryError, "none left" }] if env["PATH_INFO"] == "/nomem"
      mark = Thread.current[:mark]
      Thread.current[:mark] = 1
      [200, {"content-type" => "text/plain"}, ["#{env["rack.input"].read}|#{mark}|#{Fiber.current.blocking?}"]]
    ensure
      $running -= 1
    end)
  RUBY

  def setup
    skip "puma is not installed" if Gem::Specification.find_all_by_name("puma", ">= 6").empty?
    @dir = Dir.mktmpdir("nb-puma")
    @socket = "#{@dir}/puma.sock"
    @log = "#{@dir}/log"
    File.write("#{@dir}/config.ru", RACKUP)
  end

  def teardown
    stop if @pid
    FileUtils.rm_rf(@dir) if @dir
  end

  def start(*flags, config: CONFIG)
    @pid = spawn(*puma(*flags, config: config), chdir: @dir, out: @log, err: %i[child out], pgroup: true)
    eventually { answers? }
  end

  def puma(*flags, config: CONFIG)
    File.write("#{@dir}/puma.rb", config)
    [RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, Gem.bin_path("puma", "puma"), "-C", "puma.rb",
     "-b", "unix://#{@socket}", *flags]
  end

  # In a cluster, the workers ended one after the other.
  def test_a_variable_that_is_not_valid_ends_the_program_with_one_sentence
    { "NEVERBLOCK_FIBERS" => "NEVERBLOCK_FIBERS: must be an integer in 1..100000",
      "NB_BACKEND" => "backend: must be one of .*", "NB_WATCHDOG" => "NB_WATCHDOG: must be .*",
      "NB_DRIVERS" => "NB_DRIVERS: must be 0, or .*" }.each do |name, text|
      output, status = Open3.capture2e({ name => "x" }, "timeout", "-s", "KILL", "60", *puma("-w", "1"), chdir: @dir)
      assert_match(/^neverblock: #{text}[,;] got: "x"\n\z/, output)
      assert_equal 1, status.exitstatus
    end
  end

  def so_far = File.read(@log)

  def answers?
    get("/") && true
  rescue SystemCallError
    false
  end

  def stop
    Process.kill("TERM", @pid)
    Timeout.timeout(60) { Process.wait2(@pid)[1] }
  rescue Timeout::Error
    Process.kill("KILL", -@pid)
    Process.wait(@pid)
    flunk "puma did not stop: #{File.read(@log)}"
  ensure
    @pid = nil
  end

  def get(path, body = "")
    UNIXSocket.open(@socket) do |socket|
      socket.write("POST #{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: #{body.size}\r\n\r\n#{body}")
      Timeout.timeout(60) { socket.read }
    end
  end

  def test_requests_overlap_in_fibers_that_are_clean
    start
    answers = Array.new(20) { Thread.new { get("/together", "b") } }.map(&:value)
    answers.each { |answer| assert_match(/\r\n\r\nb\|\|false\z/, answer) }
    assert_match(/ 500 /, get("/raise"))
    assert_match(/\r\n\r\nb\|\|false\z/, get("/", "b"))
  end

  # A proxy sends the requests of different people over one connection.
  def test_requests_of_one_connection_find_nothing_of_each_other
    start
    socket = UNIXSocket.new(@socket)
    socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    answers = Timeout.timeout(60) { socket.read }
    assert_equal ["||false"] * 4, answers.scan(/\|[^\r|]*\|false/), answers
  ensure
    socket&.close
  end

  # Its own answer may wait for its turn and get it; the client that comes after it may not.
  def test_what_was_to_be_raised_in_one_request_is_not_raised_in_the_next
    start
    paths = %w[/late /late /sleep?0.001 /late /late /sleep?0.001 /sleep?0.001 /sleep?0.001]
    paths.each do |path|
      answer = get(path, "b")
      assert_match(/\r\n\r\nb\|\|false\z/, answer, path) unless path == "/late"
    end
    refute_match(/top of fiber pool/, File.read(@log))
  end

  def test_stop_waits_for_what_runs
    start
    answer = Thread.new { get("/held?0.5") }
    eventually { File.exist?("#{@dir}/begun") }
    stop
    assert_match(/200 OK/, answer.value)
  end

  # Puma takes the first setting away from a plugin that has a method `config`.
  def test_the_settings_before_its_line_stay
    %w[neverblock tmp_restart].each do |plugin|
      File.write("#{@dir}/puma.rb", "bind \"unix://kept.sock\"\nplugin :#{plugin}\n")
      out, = ruby(<<~'RUBY', "#{@dir}/puma.rb")
        require "puma/configuration"
        configuration = Puma::Configuration.new { |dsl| dsl.load(ARGV[0]) }
        configuration.load
        configuration.clamp
        puts configuration.options[:binds]
      RUBY
      assert_equal "unix://kept.sock\n", out, plugin
    end
  end

  # As under Puma's threads: it is printed, and the next request is answered.
  def test_what_is_no_standard_error_ends_neither_the_pool_nor_the_process
    start
    %w[/exit /nomem /exit].each { |path| get(path) }
    assert_match(/ 200 OK/, get("/"))
    assert_match(/none left \(NoMemoryError\)/, File.read(@log))
  end

  def test_hooks_that_raise_harm_nothing
    start(config: CONFIG + <<~RUBY)
      on_thread_start { raise "metrics are down" }
      on_thread_start { File.write("hooks", "started ", mode: "a") }
      on_thread_exit { File.write("hooks", "left", mode: "a") }
    RUBY
    assert_match(/ 200 OK/, get("/"))
    stop
    assert_equal "started left", File.read("#{@dir}/hooks")
    assert_match(/hook failed with exception \(RuntimeError\) metrics are down/, File.read(@log))
  end

  def test_out_of_band_runs_while_no_request_does
    start(config: CONFIG + <<~RUBY)
      out_of_band do
        [0.1, 0].each { |pause| File.write("told", $running.to_s, mode: "a") && sleep(pause) }
      end
      out_of_band { raise "and harms nothing" }
    RUBY
    4.times { Array.new(3) { Thread.new { get("/sleep?0.01") } }.each { |thread| assert_match(/ 200 OK/, thread.value) } }
    stop
    assert_match(/\A(00)+\z/, File.read("#{@dir}/told"))
    assert_match(/Exception calling out_of_band_hook: and harms nothing/, File.read(@log))
  end

  # Puma 6 leaves the time out when there is none, Puma 8 names it.
  POOL = <<~'RUBY'
    require "puma/thread_pool"
    require "neverblock"
    require "neverblock/puma/fiber_pool"
    done = []
    pool = NB::Puma::FiberPool.new("a test's", {}) { |_processor, client| sleep(0.1) && done << client }
    3.times { |client| pool << client }
    pool.shutdown(*ARGV.map { |seconds| Float(seconds) })
    puts done.size
  RUBY

  def test_shutdown_as_puma_6_and_8_call_it
    [[], ["-1"], ["5"]].each do |arguments|
      out, = ruby(POOL, *arguments)
      assert_equal "3\n", out, arguments.inspect
    end
  end

  # The stop finds one that waits and one that is woken, too; requests wait in the queue besides.
  FORCED = <<~'RUBY'
    require "puma/thread_pool"
    require "neverblock"
    require "neverblock/puma/fiber_pool"
    log = Thread::Queue.new
    inside, stopping = Thread::Queue.new, Thread::Queue.new
    ENV["NEVERBLOCK_FIBERS"] = "2"
    pool = NB::Puma::FiberPool.new("a test's", {}) do |_processor, client|
      pool.with_force_shutdown do
        inside << client
        sleep if client == :waits
        stopping.pop if client == :woken
      end
      sleep 0.01 # as while its answer is written: what was meant for the block comes here no more
      log << "#{client} ended"
    rescue NB::Puma::FiberPool::ForceShutdown
      log << "#{client} was stopped"
    end
    %i[waits woken late].each { |client| pool << client }
    2.times { inside.pop }
    Thread.new do
      sleep 0.001 while log.empty? # then the stop has struck all
      stopping << true
    end
    pool.shutdown(0)
    puts Array.new(log.size) { log.pop }.sort
  RUBY

  def test_a_forced_stop_strikes_where_puma_expects_it
    out, = ruby(FORCED)
    assert_equal "late was stopped\nwaits was stopped\nwoken was stopped\n", out
  end

  # One that was woken already when the stop comes, but has not had its turn: the loop stands still
  # meanwhile, and then has both before it, the stop first.
  CROSSING = <<~'RUBY'
    require "puma/thread_pool"
    require "neverblock"
    require "neverblock/puma/fiber_pool"
    inside, turn, standing, go_on = Array.new(4) { Thread::Queue.new }
    log = []
    pool = NB::Puma::FiberPool.new("a test's", {}) do |_processor, client|
      next NB.blocking { standing << true && go_on.pop } if client == :stands_still

      pool.with_force_shutdown { inside << true && turn.pop }
      sleep 0.01
      log << "ended"
    rescue NB::Puma::FiberPool::ForceShutdown
      log << "was stopped"
    end
    pool << :crossing
    inside.pop
    pool << :stands_still
    standing.pop
    Thread.new do
      Thread.pass until pool.instance_variable_get(:@force).closed?
      turn << true
      go_on << true
    end
    pool.shutdown(0)
    puts log
  RUBY

  def test_a_forced_stop_does_not_strike_the_answer
    out, = ruby(CROSSING)
    assert_equal "ended\n", out
  end

  STATE = <<~'RUBY'
    require "puma/thread_pool"
    require "neverblock"
    require "neverblock/puma/fiber_pool"
    Fiber.attr_accessor :tenant # as ActiveSupport, OpenTelemetry and I18n keep theirs
    seen = []
    ENV["NEVERBLOCK_FIBERS"] = "1"
    pool = NB::Puma::FiberPool.new("a test's", {}) do |_processor, client|
      seen << [Fiber.current.tenant, Thread.current[:tenant], (Fiber[:tenant] if Fiber.respond_to?(:[]))]
      Fiber.current.tenant = Thread.current[:tenant] = "acme"
      Fiber[:tenant] = "acme" if Fiber.respond_to?(:[])
      raise "oops" if client == 1
    end
    3.times { |client| pool << client }
    pool.shutdown
    p seen.uniq
  RUBY

  def test_a_request_finds_nothing_of_the_one_before
    out, = ruby(STATE)
    assert_match(/^\[\[nil, nil, nil\]\]\n\z/, out)
  end

  # What is no request may wait for an hour; a thread of Puma's would simply end with the process.
  BACKGROUND = <<~'RUBY'
    require "puma/thread_pool"
    require "neverblock"
    require "neverblock/puma/fiber_pool"
    NB::Puma::FiberPool.send(:remove_const, :GRACE_SECONDS)
    NB::Puma::FiberPool::GRACE_SECONDS = 1.5
    pool = NB::Puma::FiberPool.new("a test's", {}) do
      NB.async { sleep 0.01; puts "what ends soon does" }
      NB.async { begin sleep 3600 ensure puts "cancelled: #{$!.class}" end }
      NB.async { raise Interrupt, "harms nobody" }
    end
    pool << :client
    pool.shutdown
    puts "ended"
  RUBY

  def test_other_fibers_do_not_keep_it_from_ending
    out, = ruby(BACKGROUND)
    assert_match(/what ends soon does\ncancelled: NB::Cancelled\nended\n\z/, out)
  end

  def ruby(program, *arguments)
    Timeout.timeout(60) do
      Open3.capture2e(RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, "-rpuma", "-e", program, "--", *arguments)
    end
  end

  def test_cluster
    start("-w", "2")
    assert_match(/200 OK/, get("/sleep?0.01"))
    assert_equal Signal.list["TERM"], stop.termsig, File.read(@log) # so Puma ends on TERM
  end
end
# rubocop:enable Layout/LineLength
