# frozen_string_literal: true

module Bench
  module Workloads
    # Jobs that live for a moment: start, add, end.
    class Churn < Workload
      DEFAULTS = { jobs: 1_000 }.freeze

      # @return [Integer] jobs
      def round
        sum = 0
        gather(params[:jobs]) { |index| sum += index }
        count = params[:jobs]
        expect(sum == count * (count - 1) / 2, "sum differs: #{sum}")
        count
      end
    end
  end
end
