# frozen_string_literal: true

module NB
  module Rails
    # What of ActiveSupport::IsolatedExecutionState goes along to a fiber that a request starts: a
    # value, or a copy of what Rails changes in place. What is known as neither stays behind, and is
    # made anew where it is asked for.
    module InheritedState
      # Made anew: what belongs to the connection that a fiber has, to what it is just doing, or is
      # handed on by methods of Rails' own ({Inheritance}).
      LEFT = %i[
        current_attributes_instances active_support_execution_context
        active_record_asynchronous_queries_tracker
        active_record_prepared_statements_disabled_cache active_record_read_uncommitted
        active_record_explain_registry active_record_query_registry active_record_instrumenter
        active_record_runtime active_record_sql_runtime active_record_async_sql_runtime
        active_record_queries_count active_record_cached_queries_count
        active_support_notifications_registry _fanout_handle_stack
        active_support_local_cache_registry action_dispatch_server_timing_events
      ].freeze
      # A value of these is the same for both.
      VALUES = %w[
        NilClass TrueClass FalseClass Numeric Symbol String Module
        ActiveSupport::TimeZone ActiveSupport::ExecutionWrapper
        ActiveRecord::ConnectionAdapters::ConnectionHandler
      ].freeze
      # Of `thread_mattr_accessor`: which object it is belongs to the fiber, as with Current.
      ATTRIBUTE = /\Aattr_/

      class << self
        # @param state [Hash{Object => Object}]
        # @param apart [Boolean] whether for a fiber that enters Rails' executor by itself
        # @return [Hash{Object => Object}]
        # @scheduling never waits
        def copy(state, apart)
          types = VALUES.filter_map { |name| Object.const_get(name) if Object.const_defined?(name) }
          state.each_with_object({}) do |(key, value), kept|
            next if LEFT.include?(key) || (apart && belongs_to_request?(key, value))

            if types.any? { |type| value.is_a?(type) } || ATTRIBUTE.match?(key.to_s)
              kept[key] = value
            elsif (copied = copy_of(value))
              kept[key] = copied
            end
          end
        end

        private

        def belongs_to_request?(key, value)
          key == OuterTransaction::KEY || value.is_a?(ActiveSupport::ExecutionWrapper)
        end

        def copy_of(value)
          case value
          when Array, Hash, Set then value.dup
          when ActiveSupport::TaggedLogging::TagStack
            value.class.new.tap { |stack| stack.push_tags(value.tags.dup) }
          else scopes(value)
          end
        end

        # By the name: ActiveRecord need not be there.
        def scopes(value)
          return unless value.class.name == "ActiveRecord::Scoping::ScopeRegistry"

          value.dup.tap do |copy|
            copy.instance_variables.each do |name|
              copy.instance_variable_set(name, copy.instance_variable_get(name).dup)
            end
          end
        end
      end
    end
  end
end
