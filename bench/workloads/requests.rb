# frozen_string_literal: true

require "net/http"

module Bench
  module Workloads
    # A number of GETs at once, each over its own connection, to a server that waits before it
    # answers: Net::HTTP as in the article's client.
    class Requests < Workload
      DEFAULTS = { requests: 1_000, delay_ms: 0, warm_up: 50, whole_s: nil }.freeze

      def prepare
        @path = "/?ms=#{params[:delay_ms]}"
        @count = possible
        if @count < params[:requests]
          @notes << "extrapolated from #{@count} of #{params[:requests]} requests"
        end
        gather(params[:warm_up]) { get("/?ms=0") }
      end

      # Batches one after the other until the sample is long enough; each starts all its requests.
      #
      # @return [Hash] :value in requests per second
      def measure
        GC.start
        requests = 0
        sample = timed do
          loop do
            gather(@count) { get(@path) }
            requests += @count
            break unless running?(seconds)
          end
        end
        whole = sample[:elapsed] / requests * params[:requests]
        @metrics.merge!(cpu_us_per_op: sample[:cpu] / requests * 1e6, batch_s: whole)
        sample.merge(value: requests / sample[:elapsed], operations: requests)
      end

      private

      # One after the other, a thousand slow requests take minutes; some of them say the same.
      def possible
        return params[:requests] unless runtime.id == "blocking" && params[:whole_s]

        wait = params[:requests] * params[:delay_ms] / 1000.0
        whole = [params[:whole_s], 4 * seconds].min
        return params[:requests] if wait <= whole

        (params[:requests] * whole / wait).clamp(5, params[:requests]).to_i
      end

      def get(path)
        response = Net::HTTP.start("127.0.0.1", params[:port]) { |http| http.get(path) }
        right = response.code == "200" && response.body == "done"
        expect(right, "status #{response.code}, body #{response.body.inspect}")
      end
    end
  end
end
