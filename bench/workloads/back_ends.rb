# frozen_string_literal: true

require "net/http"

module Bench
  module Workloads
    # A page that needs several services: all are asked at once, each by a job of its own.
    class BackEnds < Workload
      DEFAULTS = { services: 1, delay_ms: 20, pages: 20 }.freeze

      # Pages one after the other; their number counts.
      #
      # @return [Integer]
      def round
        params[:pages].times { page }
        params[:pages]
      end

      # @return [Hash] :value in milliseconds per page
      def measure
        sample = super
        sample.merge(value: 1000 / sample[:value])
      end

      private

      def page
        gather(params[:services]) do
          path = "/?ms=#{params[:delay_ms]}"
          response = Net::HTTP.start("127.0.0.1", params[:port]) { |http| http.get(path) }
          expect(response.body == "done", "body #{response.body.inspect}")
        end
      end
    end
  end
end
