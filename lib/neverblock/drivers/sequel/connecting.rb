# frozen_string_literal: true

require_relative "../../sync/interruption"

module NB
  module Drivers
    module Sequel
      # Sequel turns whatever is raised while it connects into a DatabaseConnectionError: a timeout
      # or a cancel would look like a database that is down, and programs would go on. In a loop,
      # an exception from outside is raised unchanged.
      #
      # @api private
      module Connecting
        private

        def make_new(*)
          super
        rescue ::Sequel::DatabaseConnectionError => error
          cause = error.wrapped_exception
          raise unless cause && Sequel.in_loop? && Connecting.struck?(cause)

          raise cause, cause: cause.cause
        end

        # @return [Boolean] not for a library that cannot be loaded
        def self.struck?(cause) = !cause.is_a?(ScriptError) && Interruption.struck?(cause)
      end
    end
  end
end
