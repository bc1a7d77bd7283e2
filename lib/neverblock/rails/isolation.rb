# frozen_string_literal: true

require_relative "source"

module NB
  module Rails
    # Rails keeps its state (connections, CurrentAttributes, time zone …) per thread unless told
    # otherwise. With many requests on one thread they would share it.
    module Isolation
      class << self
        # Now, and not after the initializers as Rails would: what they take is to be found again.
        #
        # @param config [ActiveSupport::OrderedOptions] config.active_support of the application
        # @return [void]
        # @scheduling never waits
        def set(config)
          config.isolation_level ||= :fiber
          return unless config.isolation_level == :fiber

          ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
        end

        # @param root [Pathname] of the application
        # @return [void]
        # @raise [ConfigurationError] when something set it to :thread
        # @scheduling never waits
        def verify(root)
          level = ActiveSupport::IsolatedExecutionState.isolation_level
          return if level == :fiber

          place = Source.line(root, /isolation_level\s*=\s*:thread/, "config/**/*.rb")
          raise ConfigurationError,
                "isolation_level is #{level.inspect}, so requests on one thread would share " \
                "connections and Current: change #{place || "where it is set"} to\n" \
                "    config.active_support.isolation_level = :fiber\n" \
                "or delete the line, since NeverBlock sets it. To go back to threads: " \
                "config.neverblock.enabled = false"
        end
      end
    end
  end
end
