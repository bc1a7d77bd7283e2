# frozen_string_literal: true

require "net/http"

module Bench
  module Workloads
    # A request by each fiber of a pool, all at once, to a server that waits before it answers: by
    # libraries that use Net::HTTP inside.
    class Libraries < Workload
      DEFAULTS = { library: "net/http", count: 1_000, delay_ms: 1_000, warm_up: 20 }.freeze

      def prepare
        require params[:library] unless params[:library] == "net/http"
        gather(params[:warm_up]) { check(get(url(0))) }
      end

      # @return [Hash] :value in seconds
      def measure
        GC.start
        count = params[:count]
        sample = timed { gather(count) { check(get(url(params[:delay_ms]))) } }
        @metrics[:cpu_us_per_op] = sample[:cpu] / count * 1e6
        sample.merge(value: sample[:elapsed], operations: count)
      end

      private

      def url(delay) = "http://127.0.0.1:#{params[:port]}/?ms=#{delay}"

      # Ten thousand connections begin in one moment: a library's usual patience may be too short.
      def get(url)
        case params[:library]
        when "rest-client"
          RestClient::Request.execute(method: :get, url: url, timeout: 60).body
        when "httparty" then HTTParty.get(url, timeout: 60).body
        when "faraday" then Faraday.new(request: { timeout: 60 }).get(url).body
        else Net::HTTP.get(URI(url))
        end
      end

      def check(body) = expect(body == "done", "the body is #{body.inspect}")
    end
  end
end
