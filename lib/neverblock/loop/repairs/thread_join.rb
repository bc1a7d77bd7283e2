# frozen_string_literal: true

# Thread#join(limit). Before Ruby 3.3 it ignores the limit under a scheduler (Bug #19709).
module NB
  module Repairs
    # Raised inside a join whose limit has passed; never seen outside it.
    class JoinExpired < ::Exception; end # rubocop:disable Lint/InheritException -- no rescue may see it
    private_constant :JoinExpired

    # Seconds to wait; nil: no limit. An invalid limit is left for Ruby to refuse.
    #
    # @api private
    def self.join_limit(arguments)
      limit = arguments.first
      return if arguments.size != 1 || limit.nil? || limit.is_a?(String)

      seconds = limit.respond_to?(:to_f) ? limit.to_f : Float::INFINITY
      [seconds, 0.0].max if seconds.is_a?(Float) && seconds < 1_000_000_000 # about 30 years
    end

    repair(Thread, :join) do |original|
      proc do |*arguments|
        limit = Repairs.join_limit(arguments) if (scheduler = Repairs.loop_here) && alive?
        next __send__(original, *arguments) unless limit

        expired = JoinExpired.new
        begin
          scheduler.timeout_after(limit, expired) { __send__(original) }
        rescue JoinExpired => error
          raise unless error.equal?(expired)
        end
      end
    end
  end
end
