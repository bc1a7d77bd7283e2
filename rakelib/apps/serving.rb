# frozen_string_literal: true

require "net/http"
require_relative "../../test/support/ports"

module Apps
  # A server that runs an application, in processes of its own.
  class Serving
    # How each server starts, and how many connections to the database database.yml gives it.
    SERVERS = {
      "puma" => [5, %w[puma -C - -t 5:5 -b tcp://127.0.0.1:%<port>d]],
      "neverblock" => [12, %w[nb serve --quiet -b tcp://127.0.0.1:%<port>d]],
      "falcon" => [50, %w[falcon serve --forked -n 1 -b http://127.0.0.1:%<port>d]]
    }.freeze
    PATIENCE = 120
    TICKS = 100.0 # of /proc, in a second

    attr_reader :port

    # @param name [String] of SERVERS
    # @param workshop [Workshop]
    def initialize(name, workshop)
      connections, command = SERVERS.fetch(name)
      @port = Ports.free
      @log = "#{workshop.folder}/#{name}.log"
      @pid = Process.spawn(
        workshop.environment.merge("RAILS_MAX_THREADS" => connections.to_s),
        "bundle", "exec", *command.map { |word| format(word, port: @port) },
        chdir: workshop.variant(name), in: File::NULL, out: @log, err: %i[child out], pgroup: true
      )
      await
    end

    # @return [Float] CPU seconds of all its processes so far
    def cpu = processes.sum { |pid| stat(pid).values_at(11, 12).sum(&:to_i) } / TICKS

    # @return [Float] its proportional set size in megabytes
    def memory
      processes.sum do |pid|
        File.read("/proc/#{pid}/smaps_rollup")[/^Pss:\s*(\d+)/, 1].to_i
      rescue SystemCallError
        0
      end / 1024.0
    end

    # @return [Float] seconds until it had ended
    def stop
      start = now
      Process.kill(:TERM, @pid)
      waiter = Process.detach(@pid)
      return now - start if waiter.join(PATIENCE)

      Process.kill(:KILL, -@pid)
      waiter.join
      raise "#{@log}: it does not end"
    end

    private

    def await
      deadline = now + PATIENCE
      begin
        Net::HTTP.start("127.0.0.1", @port, read_timeout: PATIENCE) { |http| http.head("/up") }
      rescue SystemCallError, EOFError
        raise "it does not start: #{File.read(@log)}" if now > deadline || ended?

        sleep 0.2
        retry
      end
    end

    def ended? = Process.wait(@pid, Process::WNOHANG)

    # It leads a process group.
    def processes
      Dir.children("/proc").grep(/\A\d+\z/).select { |pid| stat(pid)[2].to_i == @pid }
    end

    # From the third column on.
    def stat(pid)
      File.read("/proc/#{pid}/stat").rpartition(") ").last.split
    rescue SystemCallError
      []
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
