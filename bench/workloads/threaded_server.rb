# frozen_string_literal: true

require_relative "net_http"

module Bench
  module Workloads
    # Net::HTTP in a process that has other threads at work: the server's, one for each connection,
    # and one that sleeps a millisecond again and again and notes how late it wakes up.
    class ThreadedServer < NetHttp
      # What the server's connections run on, whatever the clients run on.
      module Threads
        # @return [Thread]
        def self.start(&job) = Thread.new(&job)
      end

      PAUSE = 0.001

      def prepare
        super
        @late = []
      end

      # @return [Integer] requests
      def round
        clients = params[:clients]
        acceptor = Thread.new { @server.accept(clients) }
        sleeper = Thread.new { note(@late) }
        gather(clients) { fetch }
        sleeper.kill.join
        acceptor.join
        clients * params[:requests]
      end

      def measure
        sample = super
        @metrics[:late_ms] = @late.sort[@late.size * 99 / 100] * 1000
        sample
      end

      # What came before is not counted.
      def timed
        @late.clear
        super
      end

      private

      def servers = Threads

      def note(late)
        loop do
          began = now
          sleep PAUSE
          late << (now - began - PAUSE)
        end
      end
    end
  end
end
