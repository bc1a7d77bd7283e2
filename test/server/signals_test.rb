# frozen_string_literal: true

require_relative "program"

# Signals of `nb serve` beyond TERM, in one process and in a cluster.
class ServerSignalsTest < Minitest::Test
  include ServerProgram

  # A request that waits until {#go}; nil when the connection broke.
  def waiting
    thread = Thread.new do
      get("/wait")
    rescue SystemCallError
      nil
    end
    eventually { running == 1 }
    thread
  end

  # Who comes between the word of the stop and the end of listening is still answered.
  def refused?
    get && false
  rescue Errno::ENOENT, Errno::ECONNREFUSED
    true
  end

  def running = stats["workers"].sum { |worker| worker["running"].to_i }

  # As on macOS.
  def test_a_system_without_pwr
    File.write("#{@dir}/without.rb", <<~RUBY)
      Signal.singleton_class.prepend(Module.new { def list = super.except("PWR") })
      class Object
        def trap(name, ...) = name == "PWR" ? raise(ArgumentError, "unsupported signal 'SIGPWR'") : super
      end
    RUBY
    start("-w", "1", env: {"RUBYOPT" => "-r#{@dir}/without"})
    assert_equal serving_pids, [get]
    Process.kill("HUP", @pid)
    assert_predicate finish, :success?
  end

  def seconds
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
  end

  [[], %w[-w 2]].each do |flags|
    name = flags.empty? ? "one_process" : "cluster"

    define_method("test_stacks_are_as_deep_as_those_of_threads_#{name}") do
      start(*flags)
      assert_includes 1.., get("/deep"), "its pid"
    end

    define_method("test_a_request_that_asks_is_told_of_the_stop_#{name}") do
      File.write("#{@dir}/config.ru", <<~'RUBY')
        require "neverblock"
        run lambda { |env|
          before = NB.stopping?
          value = NB.until_stop { File.write("asked", "") && sleep }
          [200, {"content-type" => "text/plain"}, [[before, value, NB.stopping?] == [false, nil, true] ? "1" : "0"]]
        }
      RUBY
      start(*flags)
      answer = Thread.new { get }
      eventually { File.exist?("#{@dir}/asked") }
      assert_predicate finish, :success?
      assert_equal 1, answer.value
    end

    define_method("test_quit_ends_at_once_#{name}") do
      start(*flags)
      answer = waiting
      assert_operator seconds { assert_predicate finish("QUIT"), :success? }, :<, 10
      assert_nil answer.value
    end

    define_method("test_int_waits_and_a_second_one_does_not_#{name}") do
      start(*flags)
      answer = waiting
      Process.kill("INT", @pid)
      eventually { !ready? }
      assert_operator seconds { assert_predicate finish("INT"), :success? }, :<, 10
      assert_nil answer.value
    end

    define_method("test_drain_timeout_#{name}") do
      start(*flags, config: "drain_timeout 0.5")
      answer = waiting
      assert_operator seconds { assert_predicate finish, :success? }, :<, 10
      assert_nil answer.value
    end

    define_method("test_drain_timeout_by_flag_#{name}") do
      start(*flags, "--drain-timeout", "0.5", config: "drain_timeout nil")
      answer = waiting
      assert_operator seconds { assert_predicate finish, :success? }, :<, 10
      assert_nil answer.value
    end

    define_method("test_not_ready_while_it_drains_#{name}") do
      start(*flags)
      answer = waiting
      Process.kill("TERM", @pid)
      eventually { NB::Server::Control.ask(@control, "/ready")[/false/] }
      eventually { refused? } if flags.empty?
      go
      assert_kind_of Integer, answer.value
      assert_predicate Process.wait2(@pid)[1], :success?
      @pid = nil
    end

    define_method("test_hup_opens_the_access_log_again_#{name}") do
      Dir.mkdir("#{@dir}/elsewhere")
      File.write("#{@dir}/config.ru", "Dir.chdir('elsewhere')\n#{RACKUP}")
      start(*flags, "--access-log", "access.log")
      path = "#{@dir}/access.log"
      get("/first")
      eventually { File.read(path).include?("/first") }
      File.rename(path, "#{path}.1")
      Process.kill("HUP", @pid)
      eventually { File.exist?(path) }
      eventually { get("/second") && File.read(path).include?("/second") }
      grow_and_ask(path) unless flags.empty?
      finish
    end

    # Whoever rotated the logs has taken their folder away, too.
    define_method("test_hup_and_an_access_log_that_cannot_be_opened_#{name}") do
      Dir.mkdir("#{@dir}/logs")
      start(*flags, "--access-log", "logs/access.log")
      File.rename("#{@dir}/logs", "#{@dir}/old")
      Process.kill("HUP", @pid)
      eventually { log.include?("cannot reopen the access log: No such file") }
      eventually { get("/first") && File.read("#{@dir}/old/access.log").include?("/first") }
      Dir.mkdir("#{@dir}/logs")
      Process.kill("HUP", @pid)
      eventually { File.exist?("#{@dir}/logs/access.log") }
      eventually { get("/second") && File.read("#{@dir}/logs/access.log").include?("/second") }
      finish
    end

    define_method("test_pwr_prints_what_runs_#{name}") do
      start(*flags)
      answer = waiting
      Process.kill("PWR", @pid)
      eventually { log.match?(/^\d+ GET \/wait \d+\.\d+ s/) && log.include?("config.ru:4") }
      refute_includes log, "lib/neverblock/native.rb"
      go
      assert_kind_of Integer, answer.value
      Process.kill("PWR", @pid)
      eventually { log.match?(/^\d+ no request runs$/) }
      finish
    end
  end

  # A worker that comes after the signal logs to the new file as well.
  def grow_and_ask(path)
    old = pids
    Process.kill("TTIN", @pid)
    fresh = eventually { (now = pids).size == 3 && (now - old).first }
    eventually { get("/third") == fresh }
    eventually { File.read(path).include?("/third") }
    refute_includes File.read("#{path}.1"), "/third"
  end

  def test_signals_for_a_master_do_not_end_a_process_without_one
    start
    %w[USR1 USR2 TTIN TTOU].each do |signal|
      Process.kill(signal, @pid)
      eventually { log.include?("#{signal} needs workers") }
    end
    assert_equal @pid, get
    finish
  end

  def test_usr2_twice_under_one_pid
    start("-w", "1")
    2.times do
      old = pids
      Process.kill("USR2", @pid)
      eventually { (now = pids).size == 1 && (now & old).empty? }
      eventually { old.none? { |pid| alive?(pid) } }
    end
    assert_kind_of Integer, get
    assert_predicate finish, :success?
    refute File.exist?(@socket)
  end
end
