# frozen_string_literal: true

require_relative "configuration_error"
require_relative "deprecations"
require_relative "inheritance"
require_relative "inner_fibers"
require_relative "locale"
require_relative "source"

module NB
  module Rails
    # ActiveRecord in a program without Rails: Sinatra, Grape, a script. By itself it keeps its
    # state per thread: all fibers of a loop would share one connection, and write into each other's
    # transactions. In a loop the state belongs to the fiber, elsewhere to the thread as before.
    # Connections and transactions work as with Rails ({Database}, {Inheritance}).
    module Alone
      # The notice if a program sets the isolation back to threads.
      NOT_FIBERS = "isolation_level is :thread again, so all fibers of a thread share one " \
                   "connection: take out the line that sets it"

      class << self
        # @param driver [Drivers::Driver]
        # @return [void]
        # @scheduling never waits
        def install(driver)
          @installed = true
          use_fibers
          Scheduler.before_open { verify(driver) }
          ActiveSupport.on_load(:active_record) do
            require_relative "database"
            Database.install
            Inheritance.install
          end
        end

        # Does nothing if Rails has an application, whose railtie does this.
        #
        # @param driver [Drivers::Driver]
        # @return [void]
        # @scheduling never waits
        def install_without_application(driver)
          return if @installed || !driver.on?

          install(driver) unless application?
        end

        # For ActiveSupport without ActiveRecord and without an application. A program may have
        # loaded its version alone, which brings no state.
        #
        # @param driver [Drivers::Driver]
        # @return [void]
        # @scheduling never waits
        def install_state(driver)
          return if @installed || @state || !driver.on? || application? ||
                    !defined?(ActiveSupport::IsolatedExecutionState) ||
                    ActiveSupport::IsolatedExecutionState.isolation_level == :fiber

          @state = true
          use_fibers
          Inheritance.install
        end

        # For I18n under the same conditions.
        #
        # @param driver [Drivers::Driver]
        # @return [void]
        # @scheduling never waits
        def install_locale(driver)
          return if @locale || !driver.on? || application?

          @locale = true
          Locale.install_alone(driver)
        end

      # @return [Boolean] whether Rails has an application, whose railtie takes care of this
        # @scheduling never waits
        def application?
          defined?(::Rails.application) && !::Rails.application.nil?
        end

        private

        # The thread's state stays with the thread: Rails would clear it.
        def use_fibers
          thread = Thread.current
          state = ActiveSupport::IsolatedExecutionState
          kept = state.isolation_level == :thread && thread.active_support_execution_state
          thread.active_support_execution_state = nil if kept
          state.isolation_level = :fiber
          InnerFibers.install
          thread.active_support_execution_state = kept if kept
          Deprecations.install if defined?(ActiveSupport::Deprecation)
        end

        def verify(driver)
          driver.notice(NOT_FIBERS) if
            driver.on? && ActiveSupport::IsolatedExecutionState.isolation_level != :fiber
        end
      end
    end
  end
end
