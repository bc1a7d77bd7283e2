# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "fileutils"
require "minitest"
require "socket"
require "tmpdir"
require_relative "clock"
require_relative "ports"

# Servers that tests talk to. Each has a free port and a folder of its own. It starts when a test
# first asks for it, and ends with the test run.
#
#   redis = Servers.fetch("redis") { |port, folder| %W[redis-server --port #{port} --dir #{folder}] }
#   Redis.new(port: redis.port)
module Servers
  # A running server, the command that started it, and the signal that ends it for good.
  Server = Struct.new(:name, :port, :folder, :ending, :command, :pid)
  # Seconds until it must answer.
  PATIENCE = 120
  # Seconds until one that was told to end is killed.
  ENDING = 30
  LOCK = Thread::Mutex.new
  private_constant :LOCK

  @running = {}
  @obituaries = {}

  class << self
    include Clock

    # @param name [String]
    # @param ending [Symbol] the signal at which it ends at once; its data is not needed any more
    # @yieldparam port [Integer] free a moment ago
    # @yieldparam folder [String] empty, removed at the end
    # @yieldreturn [Array<String>] the command; its output goes to log.txt in the folder
    # @return [Server] the one of that name; the block is called only for the first
    # @raise [RuntimeError] with the end of its log, if it does not answer on its port or has ended
    #   since
    def fetch(name, ending: :TERM)
      LOCK.synchronize do
        raise obituary(name) if @running[name] && obituary(name)

        @running[name] ||= begin
          port = Ports.free
          folder = Dir.mktmpdir("nb-#{name}")
          start(Server.new(name, port, folder, ending, yield(port, folder)))
        end
      end
    end

    # Ends it, if it runs.
    def stop(name)
      warn obituary(name) if obituary(name)
      server = @running.delete(name) or return
      terminate(server.pid, server.ending) unless @obituaries.delete(name)
      FileUtils.rm_rf(server.folder)
    end

    # Kills it and starts it again, on the same port with the same folder: this looks like a crash.
    # @param signal [Symbol] such as :KILL or :TERM
    # @yield while it is down
    def restart(server, signal: :TERM)
      terminate(server.pid, signal)
      yield if block_given?
      start(server)
    end

    def stop_all = @running.keys.each { |name| stop(name) }

    private

    # What is kept of a server that ended by itself; nil while it runs.
    def obituary(name)
      @obituaries[name] ||= begin
        server = @running[name]
        _, status = server && Process.wait2(server.pid, Process::WNOHANG)
        status && "#{name} ended by itself (#{status.inspect}):\n#{end_of(log_of(server))}"
      end
    rescue Errno::ECHILD
      nil # another process's
    end

    def log_of(server) = File.join(server.folder, "log.txt")

    def end_of(log) = File.readlines(log).last(20).join

    def start(server)
      log = log_of(server)
      server.pid = Process.spawn(*server.command, in: File::NULL, out: [log, "a"], err: %i[child out], pgroup: true)
      return server if answers?(server.port, server.pid)

      terminate(server.pid)
      raise "#{server.command.join(" ")} does not answer on port #{server.port}:\n#{end_of(log)}"
    end

    def answers?(port, pid)
      deadline = clock + PATIENCE
      begin
        TCPSocket.open("127.0.0.1", port, &:close)
        true
      rescue SystemCallError
        return false if clock > deadline || Process.wait(pid, Process::WNOHANG)

        sleep 0.02
        retry
      end
    end

    def terminate(pid, signal = :TERM)
      Process.kill(signal, -pid)
      ending = Process.detach(pid)
      ending.join(ENDING) || (Process.kill(:KILL, -pid) && ending.join)
    rescue Errno::ESRCH
      nil # it has ended already
    end
  end

  Minitest.after_run { stop_all } # an at_exit here would come before the tests
end
# rubocop:enable Layout/LineLength
