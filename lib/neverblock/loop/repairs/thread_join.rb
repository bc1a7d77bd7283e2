# frozen_string_literal: true

# Thread#join(limit). Before Ruby 3.3 it ignores the limit under a scheduler (Bug #19709).
module NB
  module Repairs
    # Raised inside a join whose limit has passed; never seen outside.
    class JoinExpired < ::Exception; end # rubocop:disable Lint/InheritException -- no rescue may see it
    private_constant :JoinExpired

    replace(Thread, :join) do |original|
      proc do |limit = nil|
        scheduler = Repairs.loop_here
        next original.bind_call(self, *limit) unless scheduler && limit.is_a?(Numeric) && alive?

        expired = JoinExpired.new
        begin
          scheduler.timeout_after([limit, 0].max, expired) { original.bind_call(self) }
        rescue JoinExpired => error
          raise unless error.equal?(expired)
        end
      end
    end
  end
end
