# frozen_string_literal: true

require_relative "helper"
require_relative "outside"
require "json"
require "rbconfig"

# Ten thousand connections: idle ones cost memory only, and little of it; active ones are served.
class ServerCrowdTest < Minitest::Test
  include ServerTest
  include Outside

  COUNT = Integer(ENV.fetch("NB_CROWD", 10_000))
  SCRIPT = <<~RUBY
    require "neverblock/server"
    require "json"
    hello = lambda do |env|
      sleep(0.01) if env["PATH_INFO"] == "/slow"
      [200, {"content-type" => "text/plain"}, ["hello"]]
    end
    server = NB::Server.new(hello, bind: "tcp://127.0.0.1:0", log: $stderr)
    Thread.new { $stdout.puts(JSON.generate(server.stats)) || $stdout.flush while $stdin.gets }
    trap("TERM") { server.stop }
    server.run { $stdout.puts(server.port) || $stdout.flush }
  RUBY

  def setup
    need = COUNT + 500
    soft, hard = Process.getrlimit(:NOFILE)
    skip "the limit of open files (#{hard}) is below #{need}" if hard < need
    Process.setrlimit(:NOFILE, [soft, need].max, hard)
    @process = IO.popen([RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, "-e", SCRIPT], "r+")
    @port = Integer(@process.gets)
  end

  def teardown
    super
    return unless @process

    Process.kill(:TERM, @process.pid)
    @process.close
  end

  def stats
    @process.puts("stats")
    JSON.parse(@process.gets)
  end

  def memory_kb = File.read("/proc/#{@process.pid}/statm").split[1].to_i * 4

  def request(socket)
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    socket.readpartial(1000)
  end

  def connect
    TCPSocket.new("127.0.0.1", @port).tap { |socket| (@sockets ||= []) << socket }
  end

  def test_idle_connections_are_cheap_and_alive
    100.times { request(connect) }
    before = memory_kb
    (COUNT - 100).times { assert_includes request(connect), "hello" }
    grown = memory_kb - before
    assert_equal COUNT, stats["connections"]
    assert_operator grown, :<=, 40 * 1024 * COUNT / 10_000, "kB for #{COUNT} idle connections"
    puts "#{COUNT} idle connections: #{grown} kB" if ENV["NB_CROWD"]
    assert_empty(@sockets.reject { |socket| request(socket).end_with?("hello") })
  end

  def test_active_connections_do_not_fail
    assert_none_fails("/")
  end

  # Forty times as many as there are fibers.
  def test_active_connections_that_wait_do_not_fail
    assert_none_fails("/slow")
  end

  def assert_none_fails(path)
    told = run_program("ab", "-q", "-r", "-c", COUNT, "-n", COUNT,
                       "http://127.0.0.1:#{@port}#{path}", limit: 120)
    assert_match(/Complete requests: +#{COUNT}\nFailed requests: +0\n/, told)
    refute_match(/Non-2xx|errors/, told)
    assert_operator stats["requests"], :>=, COUNT
  end
end
