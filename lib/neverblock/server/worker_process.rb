# frozen_string_literal: true

require "json"
require_relative "worker_channel"
require_relative "metrics"
require_relative "signals"
require_relative "snapshot"

module NB
  class Server
    # One worker as its master sees it: a pid, a pipe with one heartbeat per second (a line of JSON
    # with the server's counters), and a {WorkerChannel}. In the worker, {.serve} sends the
    # heartbeats.
    #
    # @api private
    class WorkerProcess
      # Seconds between two reports.
      REPORTS = 1
      # Seconds in which a child must report that it has begun. Forked beside other threads, such as
      # that of the control socket, it may hang before it reaches any Ruby code (ruby/ruby#12981).
      BIRTH = 10
      # @return [Integer, IO] its index from 0; its pid; the pipe on which it reports
      attr_reader :index, :pid, :pipe
      # @return [WorkerChannel, nil] for questions; nil: another version's master started the worker
      attr_reader :channel
      # @return [Boolean] whether it was told to end; whether it was killed
      attr_reader :leaving, :killed

      # Forks. The block is the worker's whole life. It gets the pipe's writing end and its channel.
      def self.start(index)
        reader, writer = IO.pipe
        ours, channel = WorkerChannel.pair
        pid = Signals.fork do
          [reader, ours].each(&:close)
          writer.write("\n")
          yield writer, channel # when it ends, at_exit blocks run, in which agents send their data
        rescue SystemExit
          raise
        rescue Exception => error # rubocop:disable Lint/RescueException -- ends the process
          $stderr.write("worker #{index}: #{error.full_message}\n")
          exit(1)
        end
        new(index, pid, reader, channel: ours, begun: false)
      rescue SystemCallError
        [reader, ours].compact.each(&:close)
        raise
      ensure
        [writer, channel].compact.each(&:close)
      end

      # Runs the server with a heartbeat from inside its loop. Ends if the master is gone.
      #
      # @param channel [WorkerChannel] to the master, for questions and answers
      # @param master [Integer] its pid
      def self.serve(server, pipe, channel, master) # rubocop:disable Metrics/ParameterLists
        server.shared = true
        server.channel = channel.serve(ended: -> { outlive(master) }) do |query|
          JSON.generate(server.snapshot(**Snapshot.detail(query)))
        end
        server.run do
          FiberNames.schedule("the heartbeat for the master") do
            while Process.ppid == master
              report(server, pipe)
              Fiber.scheduler.idle { sleep REPORTS } # does not keep a drained server running
            end
            server.inherit
            Process.kill("TERM", Process.pid)
          end
        end
      ensure
        report(server, pipe, last: true)
      end

      # Also while the loop stands still: its heartbeat cannot find out that the master is gone, and
      # nobody else would end this process. The kernel closes the master's files before it gives its
      # children away.
      def self.outlive(master)
        sleep REPORTS while Process.ppid == master
        Process.kill("TERM", Process.pid)
      end

      # Does not wait for the last report: the loop has ended, and the master may not read.
      def self.report(server, pipe, last: false)
        last ? pipe.write_nonblock(line(server), exception: false) : pipe.write(line(server))
      rescue Errno::EPIPE
        nil # the master ended at this moment
      end

      def self.line(server)
        counters = server.stats.merge(ready: server.ready?, rss_kb: Metrics.resident_kb,
                                      metrics: server.metrics)
        "#{JSON.generate(counters)}\n"
      end
      private_class_method :outlive, :report, :line

      # @param begun [Boolean] whether it served under another master, before USR2
      def initialize(index, pid, pipe, channel: nil, ready: false, # rubocop:disable Metrics/ParameterLists
                     metrics: {}, begun: true)
        @index = index
        @pid = pid
        @pipe = pipe
        @channel = channel
        @started = @heard = now
        @begun = @inherited = begun
        @excused = 0
        @stats = {ready: ready, metrics: metrics}
        @rest = +""
      end

      # Takes in what the worker reports. @return [void]
      def read
        bytes = @pipe.read_nonblock(65_536, exception: false)
        return unless bytes.is_a?(String)

        @heard = now
        @excused = 0
        @begun = true
        *lines, @rest = (@rest << bytes).split("\n", -1)
        lines.reject!(&:empty?)
        @stats = JSON.parse(lines.last, symbolize_names: true) unless lines.empty?
      rescue JSON::ParserError
        nil # the end of a line whose beginning the master before USR2 had read; the next is whole
      end

      # Sends it a signal, unless it has ended. @return [void]
      def signal(name)
        Process.kill(name, @pid)
      rescue Errno::ESRCH
        nil
      end

      # @return [void]
      def kill
        @killed = true
        signal("KILL")
      end

      # It got the signal to end, within so many seconds; nil: without a limit. @return [void]
      def leave(seconds)
        @leaving = true
        @leave_by = seconds && (now + seconds)
      end

      # @return [Boolean] whether it is overdue to end
      def overdue? = !@leave_by.nil? && now > @leave_by

      # @return [String] its entry in {Handover}
      def inheritance
        pipe, channel = ios.map(&:fileno)
        [@pid, @index, pipe, ready? ? 1 : 0, channel].compact.join(":")
      end

      # Reads what came on one of {#ios}: a report, or a frame on its {#channel}.
      # @yield [text] as {WorkerChannel#read} does
      # @return [void]
      def hear(io, &answer) = io.equal?(@pipe) ? read : @channel.read(&answer)

      # @return [Array<IO>] the IOs it may send on
      def ios = [@pipe, (@channel.io unless @channel.nil? || @channel.closed?)].compact

      def ready? = @stats[:ready] == true

      # @param config [Config]
      # @return [Boolean] whether it has served or grown beyond the configured limits
      def used_up?(config)
        (config.max_requests && @stats[:requests].to_i >= config.max_requests) ||
          (config.max_memory_mb && @stats[:rss_kb].to_i / 1024 >= config.max_memory_mb)
      end

      # @return [Hash] the last result of {Metrics.read} in the worker
      def metrics = @stats.fetch(:metrics, {})
      # @return [Float] seconds since its last report
      def silent_for = now - @heard
      # @return [Float] seconds of its silence in which it could have reported
      def stuck_for = silent_for - @excused

      # @return [String] what it has not done for so long
      def silence
        loaded = ready? || @stats.key?(:requests)
        "#{loaded ? "its loop has not turned for" : "it has not begun to serve for"} " \
          "#{stuck_for.round} s"
      end

      # The master was stopped for so many seconds: they do not count. @return [void]
      def excuse(seconds) = @excused += seconds
      # @return [Boolean] whether it should have begun by now
      def unborn? = !@begun && stuck_for > BIRTH
      # @return [Boolean] whether it ended soon after its start, with whatever status: an
      #   application may exit while it loads
      def ended_at_once? = !@inherited && !leaving && now - @started < 1

      # @param status [Process::Status, nil] nil: another wait in this process has got it
      # @return [String, nil] what to report about its end
      def fate(status)
        return ("has ended; its status went to a wait for any child" unless leaving) if status.nil?
        return "died: #{status}" unless status.success?

        "ended at once: #{status}" if ended_at_once?
      end

      # @return [Float, nil] its CPU time at its last report
      def cpu_seconds = metrics[:nb_cpu_seconds]
      # @return [void]
      def close = ios.each(&:close)

      # @return [Hash] its last report, for `nb stats`
      def to_h
        @stats.except(:metrics).merge(index: @index, pid: @pid, heard_s: silent_for.round(1))
      end

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
