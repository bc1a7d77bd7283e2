# frozen_string_literal: true

require_relative "../fiber_state"

module NB
  module Puma
    # What comes between two requests of one fiber.
    #
    # @api private
    module BetweenRequests
      private

      # Makes the fiber like new. Interrupts that have not arrived were for the request before.
      def begin_anew
        @scheduler.forget_interrupts
        FiberState.clear
      rescue StandardError => error # what could not be given back
        $stderr.write("Error after a request: #{error.message} (#{error.class})\n")
      end
    end
  end
end
