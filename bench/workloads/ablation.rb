# frozen_string_literal: true

require_relative "http_server"

module Bench
  module Workloads
    # The same calls in each form that 2014 discussed: straight code or callbacks, on the loop or on
    # a thread pool. Every answer is compared.
    class Ablation < Workload
      DEFAULTS = { way: "fiber", jobs: 50, calls: 20 }.freeze

      def prepare
        callers = { "nb" => NeverBlock, "em" => EventMachine, "threads" => Threads,
                    "polling" => Polling }
        @caller = callers.fetch(runtime.id)
                         .new(params.fetch(:port), pooled: params[:way].end_with?("_pool"))
        @connections = Array.new(params[:jobs]) { @caller.connect }
      end

      # All jobs at once, each makes its calls one after the other.
      #
      # @return [Integer] calls
      def round
        straight = params[:way].start_with?("fiber")
        @caller.together(params[:jobs]) do |done|
          @connections.each do |connection|
            straight ? walk(connection, done) : hop(connection, done)
          end
        end
        params[:jobs] * params[:calls]
      end

      private

      # Straight code, in whatever the runtime starts for it.
      def walk(connection, done)
        runtime.start do
          params[:calls].times { check(@caller.ask(connection)) }
          done.call
        end
      end

      # The same in callbacks: each answer makes the next call.
      def hop(connection, done, left = params[:calls])
        return done.call if left.zero?

        @caller.ask_then(connection) do |answer|
          check(answer)
          hop(connection, done, left - 1)
        end
      end

      def check(answer) = expect(answer == HttpServer::RESPONSE, "an answer: #{answer.inspect}")
    end
  end
end

require_relative "ablation/exchange"
require_relative "ablation/event_machine"
require_relative "ablation/never_block"
require_relative "ablation/threads"
