# frozen_string_literal: true

module Bench
  module Workloads
    # Many jobs share few connections, each held for a short while. A queue is the pool; it is
    # checked that no connection is ever held twice.
    class ConnectionPool < Workload
      DEFAULTS = { jobs: 50, checkouts: 20, slots: 5, hold_ms: 1.0 }.freeze

      # @return [Integer] checkouts
      def round
        slots = Thread::Queue.new
        params[:slots].times { |slot| slots << slot }
        held = Array.new(params[:slots], false)
        gather(params[:jobs]) { params[:checkouts].times { use(slots, held) } }
        params[:jobs] * params[:checkouts]
      end

      private

      def use(slots, held)
        slot = slots.pop
        expect(!held[slot], "slot #{slot} held twice")
        held[slot] = true
        sleep_exactly(params[:hold_ms] / 1000)
        held[slot] = false
        slots << slot
      end
    end
  end
end
