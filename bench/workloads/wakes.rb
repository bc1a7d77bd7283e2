# frozen_string_literal: true

module Bench
  module Workloads
    # Many open sockets with a job waiting on each, few of them busy: what one wake-up costs. The
    # other ends are in the C echo server, a process of its own.
    class Wakes < Workload
      DEFAULTS = { sockets: 100, busy: 100 }.freeze

      # @return [Array]
      def self.rival(params, seconds)
        ["c_echo", "wakes", *params.values_at(:port, :sockets, :busy), seconds]
      end

      def prepare
        @random = Random.new(2008)
        @answers = Thread::Queue.new
        @sockets = Array.new(params[:sockets]) do
          TCPSocket.new("127.0.0.1", params[:port]).tap { |socket| listen(socket) }
        end
        params[:sockets].times { @answers.pop } # every job waits now
      end

      # One byte to each of a hundred sockets; done when each has come back.
      #
      # @return [Integer] wake-ups
      def round
        busy = [params[:busy], params[:sockets]].min
        10.times do
          chosen = @sockets.sample(busy, random: @random)
          chosen.each { |socket| socket.write("!") }
          back = Array.new(busy) { @answers.pop }
          expect(back.uniq.size == busy, "a socket answered twice")
        end
        busy * 10
      end

      # @return [Hash] :value in microseconds of CPU time per wake-up
      def measure
        sample = super
        @metrics[:wakes_per_s] = sample[:value]
        @metrics[:us_per_wake] = 1e6 / sample[:value]
        @metrics[:gc_us_per_wake] = @metrics[:gc_ms] * 1000.0 / sample[:operations]
        @sockets.each { |socket| socket.shutdown(Socket::SHUT_WR) }
        sample.merge(value: @metrics[:cpu_us_per_op])
      end

      private

      def listen(socket)
        runtime.start do
          @answers << socket
          data = +""
          while socket.readpartial(16, data) == "!"
            @answers << socket
          end
        rescue EOFError
          socket.close
        rescue StandardError => error
          wrong("#{error.class}: #{error.message}")
        end
      end
    end
  end
end
