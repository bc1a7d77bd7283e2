# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "inner_fibers"

module NB
  module Rails
    # Fibers of {NB.gather}, {NB.map}, {NB.first} and {NB.group} in a request see what the request
    # sees: Current, the role and shard of connected_to, the time zone, the locale, tags of the log,
    # the context of the error reporter. What they change there is theirs. They take connections of
    # their own, and give them back at their end.
    #
    # They belong to the request that waits for them, so Rails' executor is not entered once more.
    module Inheritance
      # Kept by Rails beside the rest, and copied by its own methods.
      APART = %i[current_attributes_instances active_support_execution_context
                 active_record_asynchronous_queries_tracker].freeze
      @added = false

      class << self
        # @return [void]
        # @scheduling never waits
        def install
          NB::Inheritance.add { capture } unless @added
          @added = true
        end

        # What the calling fiber would hand on.
        #
        # @return [#call, nil] runs a block with it, in another fiber; nil: there is nothing
        # @scheduling never waits
        def capture
          state = InnerFibers.current.active_support_execution_state or return

          kept = state.except(*APART).transform_values { |value| copy(value) }
          context = ActiveSupport::ExecutionContext.to_h
          attributes = current_attributes
          locale = ::I18n.locale
          lambda do |block|
            Fiber.current.active_support_execution_state = kept
            ActiveSupport::ExecutionContext.set(**context)
            attributes.each { |klass, values| klass.instance.attributes = values }
            ::I18n.locale = locale
            with_own_connections(block)
          end
        end

        private

        def with_own_connections(block)
          block.call
        ensure
          ::ActiveRecord::Base.connection_handler.clear_active_connections!(:all) if
            defined?(::ActiveRecord::Base)
        end

        def current_attributes
          ActiveSupport::CurrentAttributes.send(:current_instances).each_value
            .to_h { |instance| [instance.class, instance.attributes.dup] }
        end

        # Lists that Rails changes in place.
        def copy(value)
          case value
          when ActiveSupport::TaggedLogging::TagStack
            value.class.new.tap { |stack| stack.push_tags(value.tags.dup) }
          when Array, Hash then value.dup
          else value
          end
        end
      end
    end
  end
end
