# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require "open3"
require "socket"
require "tmpdir"
require "timeout"

# Puma itself, started as a program, with one line more in its configuration.
class PumaPluginTest < Minitest::Test
  CONFIG = <<~RUBY
    threads 1, 1
    plugin :neverblock
    quiet
  RUBY
  RACKUP = <<~'RUBY'
    run lambda { |env|
      sleep(Float(env["QUERY_STRING"])) if env["PATH_INFO"] == "/sleep"
      raise "oops" if env["PATH_INFO"] == "/raise"
      mark = Thread.current[:mark]
      Thread.current[:mark] = 1
      [200, {"content-type" => "text/plain"}, ["#{env["rack.input"].read}|#{mark}|#{Fiber.current.blocking?}"]]
    }
  RUBY

  def setup
    skip "puma is not installed" if Gem::Specification.find_all_by_name("puma", ">= 6").empty?
    @dir = Dir.mktmpdir("nb-puma")
    @socket = "#{@dir}/puma.sock"
    @log = "#{@dir}/log"
    File.write("#{@dir}/puma.rb", CONFIG)
    File.write("#{@dir}/config.ru", RACKUP)
  end

  def teardown
    stop if @pid
    FileUtils.rm_rf(@dir) if @dir
  end

  def start(*flags)
    @pid = spawn(RbConfig.ruby, *$LOAD_PATH.map { |path|
 "-I#{path}" }, Gem.bin_path("puma", "puma"), "-C", "puma.rb", "-b",
                 "unix://#{@socket}", *flags, chdir: @dir, out: @log, err: @log, pgroup: true)
    deadline = Time.now + 15
    sleep 0.05 until answers? || Time.now > deadline
    assert answers?, File.read(@log)
  end

  def answers?
    get("/") && true
  rescue SystemCallError
    false
  end

  def stop
    Process.kill("TERM", @pid)
    Timeout.timeout(10) { Process.wait2(@pid)[1] }
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
      Timeout.timeout(10) { socket.read }
    end
  end

  def test_requests_overlap_in_fibers_that_are_clean
    start
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    answers = Array.new(20) { Thread.new { get("/sleep?0.3", "b") } }.map(&:value)
    assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - started, :<, 2.5
    answers.each { |answer| assert_match(/\r\n\r\nb\|\|false\z/, answer) }
    assert_match(/ 500 /, get("/raise"))
    assert_match(/\r\n\r\nb\|\|false\z/, get("/", "b"))
  end

  def test_stop_waits_for_what_runs
    start
    answer = Thread.new { get("/sleep?0.5") }
    sleep 0.2
    stop
    assert_match(/200 OK/, answer.value)
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
      out, = Open3.capture2e(RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, "-rpuma", "-e", POOL, "--", *arguments)
      assert_equal "3\n", out, arguments.inspect
    end
  end

  def test_cluster
    start("-w", "2")
    assert_match(/200 OK/, get("/sleep?0.01"))
    assert_equal Signal.list["TERM"], stop.termsig, File.read(@log) # so Puma ends on TERM
  end
end
# rubocop:enable Layout/LineLength
