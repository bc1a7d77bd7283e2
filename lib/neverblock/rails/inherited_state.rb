# frozen_string_literal: true

require_relative "../sync/inheritance"

module NB
  module Rails
    # The part of ActiveSupport::IsolatedExecutionState that a fiber started by a request takes
    # over: values, and copies of what Rails changes in place. Unknown state stays behind, and is
    # made anew when it is asked for.
    module InheritedState
      # State that the new fiber does not take over: that of a connection, that of the moment, and
      # that which Rails' own methods pass on ({Inheritance}).
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
      # Values of these classes are shared by both.
      VALUES = %w[
        NilClass TrueClass FalseClass Numeric Symbol String Regexp Module
        ActiveSupport::TimeZone ActiveSupport::ExecutionWrapper
        ActiveRecord::ConnectionAdapters::ConnectionHandler
      ].freeze
      # From `thread_mattr_accessor`: the object goes along, as with Current. Rails changes a list
      # there in place (the encryption contexts of `without_encryption`), so lists are copied.
      ATTRIBUTE = /\Aattr_/
      # What collects jobs until the end of a block.
      BUFFERS = %w[GoodJob::Bulk::Buffer GoodJob::Adapter::InlineBuffer].freeze

      class << self
        # @param state [Hash{Object => Object}]
        # @param apart [Boolean] whether the fiber enters Rails' executor itself
        # @return [Hash{Object => Object}]
        # @scheduling never waits
        def copy(state, apart)
          types = VALUES.filter_map { |name| Object.const_get(name) if Object.const_defined?(name) }
          state.each_with_object({}) do |(key, value), kept|
            next if LEFT.include?(key) || (apart && belongs_to_request?(key, value))

            if types.any? { |type| value.is_a?(type) }
              kept[key] = value
            elsif (copied = NB::Inheritance.copy(value) || copy_of(value))
              kept[key] = copied
            elsif ATTRIBUTE.match?(key.to_s)
              kept[key] = value
            end
          end
        end

        private

        # A job that such a fiber put into one of the buffers after the end of its block would
        # never be enqueued, or never be run.
        def belongs_to_request?(key, value)
          key == OuterTransaction::KEY || value.is_a?(ActiveSupport::ExecutionWrapper) ||
            BUFFERS.include?(value.class.name)
        end

        def copy_of(value)
          case value
          when ActiveSupport::TaggedLogging::TagStack
            value.class.new.tap { |stack| stack.push_tags(value.tags.dup) }
          else scopes(value)
          end
        end

        # Compared by name, because ActiveRecord need not be loaded.
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
