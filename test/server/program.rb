# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "fileutils"
require "json"
require "minitest/autorun"
require "rbconfig"
require "socket"
require "tmpdir"
require "neverblock/server/control"
require_relative "../support/interrupts"
require_relative "../support/patience"

# `nb serve` as a program in a folder of its own: signals, workers, control socket.
module ServerProgram
  include Patience

  NB_PROGRAM = File.expand_path("../../exe/nb", __dir__)
  RACKUP = <<~RUBY
    run lambda { |env|
      sleep 0.3 if env["PATH_INFO"] == "/slow"
      loop { } if env["PATH_INFO"] == "/stuck"
      sleep 0.01 until File.exist?("go") if env["PATH_INFO"] == "/wait"
      deep(800) if env["PATH_INFO"] == "/deep"
      $grown = "x" * (300 << 20) if env["PATH_INFO"] == "/grow"
      sleep if env["PATH_INFO"] == "/sleep"
      [200, {"content-type" => "text/plain"}, ["\#{Process.pid}"]]
    }
    def deep(count) = count.zero? ? 0 : [1].sum { 1 + deep(count - 1) }
  RUBY

  def setup
    @dir = Dir.mktmpdir("nb-server")
    @socket = "#{@dir}/app.sock"
    @control = "unix://#{@dir}/control.sock"
    @log = "#{@dir}/log"
    File.write("#{@dir}/config.ru", RACKUP)
    File.write("#{@dir}/nb.rb", "")
  end

  def teardown
    if @pid
      Process.kill("KILL", -@pid) # its group: master and workers
      Process.wait(@pid)
    end
    FileUtils.rm_rf(@dir)
  end

  def start(*flags, config: "", **options)
    File.write("#{@dir}/nb.rb", config)
    launch(*nb("serve", "-b", "unix://#{@socket}", *flags), **options)
  end

  # The program with its configuration and control socket.
  def nb(command, *flags)
    [RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, NB_PROGRAM, command, "-C", "#{@dir}/nb.rb",
     "--control", @control, *flags]
  end

  # Runs any command that serves and answers at the control socket.
  def launch(*command, env: {}, **options)
    @pid = spawn(env, *command, chdir: @dir, pgroup: true,
                 **{ out: @log, err: %i[child out] }.merge(options))
    eventually { ready? }
  end

  def ready?
    JSON.parse(NB::Server::Control.ask(@control, "/ready"))["ready"]
  rescue SystemCallError, EOFError
    false
  end

  def stats = JSON.parse(NB::Server::Control.ask(@control))
  def workers = stats["workers"].select { |worker| worker["ready"] }

  # Ask once per condition: between two answers, a worker may have ended or begun.
  def serving_pids = workers.map { |worker| worker["pid"] }

  def pids
    serving_pids
  rescue SystemCallError, EOFError
    [] # refused, or closed before the answer: the control socket is between two masters
  end

  def alive?(pid)
    Process.kill(0, pid)
  rescue Errno::ESRCH
    false
  end

  # @return [String, nil] the body of the answer, on a connection of its own
  def body(path = "/")
    UNIXSocket.open(@socket) do |socket|
      socket.write("GET #{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      socket.read[/\r\n\r\n(.*)\z/m, 1]
    end
  end

  # @return [Integer, nil] the number at the end of the body
  def get(path = "/") = body(path)&.slice(/\d+\z/)&.to_i

  # The same over TLS, for tests that have Certificates.
  def secure(port)
    client = Certificates.client(TCPSocket.new("127.0.0.1", port)).connect
    client.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    client.read[/\d+\z/].to_i
  ensure
    client&.close
  end

  # Answers of "/wait" come from now on.
  def go = File.write("#{@dir}/go", "")

  def log = File.read(@log)
  def so_far = log

  def finish(signal = "TERM")
    Process.kill(signal, @pid)
    ended
  end

  # At TERM, a cluster answers the request that runs, and then ends.
  def assert_term_waits
    answer = Thread.new { get("/wait") }
    eventually { stats["workers"].sum { |worker| worker["running"].to_i } == 1 }
    Process.kill("TERM", @pid)
    eventually { !ready? }
    go
    assert_kind_of Integer, answer.value
    assert_predicate ended, :success?
  end

  # @return [Process::Status] of the program, which is to end by itself
  def ended(seconds = 60)
    _, status = eventually(seconds) { Process.wait2(@pid, Process::WNOHANG) }
    @pid = nil
    status
  end
end
# rubocop:enable Layout/LineLength
