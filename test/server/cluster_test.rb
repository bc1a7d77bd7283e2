# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"
require "json"
require "net/http"
require "open3"
require "tmpdir"
require "neverblock/server/control"

# `nb serve` as a program: signals, workers, control socket.
class ServerClusterTest < Minitest::Test
  NB_PROGRAM = File.expand_path("../../exe/nb", __dir__)
  RACKUP = <<~RUBY
    run lambda { |env|
      sleep 0.3 if env["PATH_INFO"] == "/slow"
      loop { } if env["PATH_INFO"] == "/stuck"
      [200, {"content-type" => "text/plain"}, ["\#{Process.pid}"]]
    }
  RUBY

  def setup
    @dir = Dir.mktmpdir("nb-cluster")
    File.write("#{@dir}/config.ru", RACKUP)
  end

  def teardown
    if @pid
      Process.kill("KILL", -@pid) # its group: master and workers
      Process.wait(@pid)
    end
    FileUtils.rm_rf(@dir)
  end

  def start(*flags, config: "")
    File.write("#{@dir}/nb.rb", config)
    @socket = "#{@dir}/app.sock"
    @control = "unix://#{@dir}/control.sock"
    @log = "#{@dir}/log"
    @pid = spawn(RbConfig.ruby, *$LOAD_PATH.map { |path|
 "-I#{path}" }, NB_PROGRAM, "serve", "-C", "#{@dir}/nb.rb",
                 "-b", "unix://#{@socket}", "--control", @control, *flags, chdir: @dir, out: @log, err: @log, pgroup: true)
    eventually { ready? }
  end

  def eventually(seconds = 15)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    until (value = yield)
      flunk "not in #{seconds} s: #{File.read(@log)}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      sleep 0.02
    end
    value
  end

  def ready?
    JSON.parse(NB::Server::Control.ask(@control, "/ready"))["ready"]
  rescue SystemCallError, TypeError
    false
  end

  def stats = JSON.parse(NB::Server::Control.ask(@control))
  def workers = stats["workers"].select { |worker| worker["ready"] }

  def pids
    workers.map { |worker| worker["pid"] }
  rescue SystemCallError, TypeError
    [] # refused, or closed before the answer: the control socket is between two masters
  end

  def alive?(pid)
    Process.kill(0, pid)
  rescue Errno::ESRCH
    false
  end

  def get(path = "/")
    UNIXSocket.open(@socket) do |socket|
      socket.write("GET #{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      socket.read[/\d+\z/]&.to_i
    end
  end

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

  def finish(signal = "TERM")
    Process.kill(signal, @pid)
    _, status = Process.wait2(@pid)
    @pid = nil
    status
  end

  def test_single_process
    start
    assert_equal @pid, get
    assert_equal 1, stats["workers"].size
    assert_predicate finish, :success?
    refute File.exist?(@socket)
  end

  def test_term_waits_for_what_runs
    start("-w", "2")
    answer = Thread.new { get("/slow") }
    sleep 0.15
    status = finish
    assert_kind_of Integer, answer.value
    assert_predicate status, :success?
  end

  def test_a_killed_worker_is_replaced
    start("-w", "2")
    eventually { workers.size == 2 }
    killed = workers.first["pid"]
    Process.kill("KILL", killed)
    eventually { workers.size == 2 && workers.none? { |worker| worker["pid"] == killed } }
    assert_match(/died: .*KILL/, File.read(@log))
    finish
  end

  def test_usr1_replaces_all_workers_without_a_failed_request
    start("-w", "2")
    old = eventually { workers.size == 2 && workers }.map { |worker| worker["pid"] }
    failed = under_load do
      Process.kill("USR1", @pid)
      eventually { workers.size == 2 && (workers.map { |worker| worker["pid"] } & old).empty? }
    end
    assert_equal 0, failed
    finish
  end

  def test_usr2_replaces_the_master_without_a_failed_request
    start("-w", "2")
    old = eventually { workers.size == 2 && workers }.map { |worker| worker["pid"] }
    failed = under_load do
      Process.kill("USR2", @pid)
      eventually { (now = pids).size == 2 && (now & old).empty? }
      eventually { old.none? { |pid| alive?(pid) } }
    end
    assert_equal 0, failed
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
    assert_match(/its loop has not turned for/, File.read(@log))
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
