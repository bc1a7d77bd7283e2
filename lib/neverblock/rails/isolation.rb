# frozen_string_literal: true

require_relative "source"

module NB
  module Rails
    # By default Rails keeps its state (connections, CurrentAttributes, time zone …) per thread.
    # Many requests on one thread would share it, so this sets the isolation to fibers.
    module Isolation
      class << self
        # Sets it now, not after the initializers as Rails would: initializers must find their state
        # again later.
        #
        # @param config [ActiveSupport::OrderedOptions] config.active_support of the application
        # @return [void]
        # @scheduling never waits
        def set(config)
          config.isolation_level ||= :fiber
          return unless config.isolation_level == :fiber

          ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
        end

        # For a railtie that came after Rails' initializers.
        #
        # @return [void]
        # @raise [ConfigurationError] unless the level is :fiber nevertheless
        # @scheduling never waits
        def refuse_late
          level = ActiveSupport::IsolatedExecutionState.isolation_level
          return if level == :fiber

          raise ConfigurationError,
                "isolation_level is #{level.inspect}, so fibers would share connections and " \
                "Current: NeverBlock was loaded after Rails' initializers had begun. Put " \
                "`gem \"neverblock\"` into the Gemfile, without `require: false`, or require it " \
                "before config/environment.rb"
        end

        # @param root [Pathname] of the application
        # @return [void]
        # @raise [ConfigurationError] if something set it to :thread
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
