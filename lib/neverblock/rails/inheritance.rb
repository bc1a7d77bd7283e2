# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "inherited_state"
require_relative "inner_fibers"
require_relative "locale"
require_relative "outer_transaction"
require_relative "share_lock"

module NB
  module Rails
    # Fibers that a request starts see what the request sees: Current, the role and shard of
    # connected_to, scopes, the time zone, the locale, log tags, the context of the error reporter
    # ({InheritedState}). Their changes stay their own. They take connections of their own, and
    # return them at their end.
    #
    # - Fibers of {NB.gather}, {NB.map}, {NB.first} and {NB.group} belong to the request, which
    #   waits for them. So they do not enter Rails' executor again, and they keep out of the
    #   request's transactions ({OuterTransaction}). The child of {NB.in_process} starts in the same
    #   way.
    # - A fiber of {NB.async} may outlive the request. It is a unit of work of its own in Rails'
    #   executor, like a job.
    module Inheritance
      @added = false

      class << self
        # @return [void]
        # @scheduling never waits
        def install
          OuterTransaction.install
          NB::Inheritance.add { |apart| capture(apart) } unless @added
          @added = true
        end

        # What the calling fiber would pass on.
        #
        # @param apart [Boolean] whether the new fiber is a unit of work of its own
        # @return [#call, nil] runs a block with it, in another fiber; nil: there is nothing to pass
        #   on
        # @scheduling never waits
        def capture(apart = false)
          state = InnerFibers.current.active_support_execution_state or return

          kept = InheritedState.copy(state, apart)
          kept[OuterTransaction::KEY] = outer_transactions(state) unless apart
          kept[ShareLock::SHARER] = state[ShareLock::SHARER]
          set = setting
          executor = ::Rails.application.executor if apart && executing?
          lambda do |block|
            InnerFibers.current.active_support_execution_state = kept
            within(executor) do
              set.call
              block.call
            end
          end
        end

        private

        def outer_transactions(state)
          (state[OuterTransaction::KEY] || {}).merge(OuterTransaction.open)
        end

        def executing?
          defined?(::Rails.application) && ::Rails.application&.executor&.active?
        end

        def within(executor, &block)
          executor ? executor.wrap(&block) : with_own_connections(&block)
        end

        # State that Rails keeps apart from the rest, and clears when its executor is entered. A
        # program without Rails may have loaded only parts of ActiveSupport.
        def setting
          context = ActiveSupport::ExecutionContext.to_h
          attributes = current_attributes
          locale = (::I18n.locale if defined?(::I18n.locale))
          lambda do
            ActiveSupport::ExecutionContext.set(**context) unless context.empty?
            attributes.each { |klass, values| klass.instance.attributes = values }
            speak(locale) if locale
          end
        end

        # I18n 1.15 keeps its configuration in the storage of fibers, which is inherited, and copies
        # it for another fiber, but not what a proxy stands for. Setting the locale loads all
        # translations.
        def speak(locale)
          config = ::I18n.config
          ::I18n.config = Locale.copy(config) if Locale.proxy?(config)
          ::I18n.locale = locale unless ::I18n.locale == locale
        end

        # As in the executor, this includes its session for `load_async`.
        def with_own_connections
          tracker = ::ActiveRecord::Base.asynchronous_queries_tracker if defined?(::ActiveRecord::Base)
          tracker&.start_session
          yield
        ensure
          tracker&.finalize_session
          ::ActiveRecord::Base.connection_handler.clear_active_connections!(:all) if tracker
        end

        def current_attributes
          return {} if ActiveSupport.autoload?(:CurrentAttributes)

          ActiveSupport::CurrentAttributes.send(:current_instances).each_value
            .to_h { |one| [one.class, NB::Inheritance.copies(one.attributes)] }
        end
      end
    end
  end
end
