# frozen_string_literal: true

require "net/http"

module Bench
  module Workloads
    # The article's io_bound_threads.rb: never more than so many jobs at work, each fetches the URL
    # once; a Mutex and a ConditionVariable count them.
    class Fetches < Workload
      DEFAULTS = { fetches: 400, workers: 1, delay_ms: 28.6, budget_s: 12.0 }.freeze

      # Seconds for all fetches; long ones are computed from a part of them.
      #
      # @return [Hash] :value in seconds
      def measure
        count = possible
        get
        sample = timed { run_fetches(count) }
        if count < wanted
          @notes << "extrapolated: samples longer than #{params[:budget_s].to_i} s do a part of " \
                    "the fetches"
        end
        @metrics[:cpu_us_per_op] = sample[:cpu] / count * 1e6
        sample.merge(value: sample[:elapsed] / count * wanted, operations: count)
      end

      private

      # One for each worker at least.
      def wanted = [params[:fetches], params[:workers]].max

      def possible
        # Whole turns only: a last turn that is not full would be counted as if it were.
        turns = (params[:budget_s] * 1000 / params[:delay_ms]).floor.clamp(1, nil)
        [wanted, turns * params[:workers]].min
      end

      def run_fetches(count)
        mutex = Mutex.new
        signal = ConditionVariable.new
        started = active = 0
        mutex.synchronize do
          while started < count || active.positive?
            while started < count && active < params[:workers]
              active += 1
              started += 1
              runtime.start do
                attempt { get }
                mutex.synchronize { active -= 1 }
                signal.signal
              end
            end
            signal.wait(mutex) if active >= params[:workers] || started == count && active.positive?
          end
        end
      end

      def get
        http = Net::HTTP.new("127.0.0.1", params[:port])
        http.open_timeout = 30
        response = http.start { |open| open.get("/?ms=#{params[:delay_ms]}") }
        right = response.code == "200" && response.body == "done"
        expect(right, "status #{response.code}, body #{response.body.inspect}")
      end
    end
  end
end
