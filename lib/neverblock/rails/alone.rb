# frozen_string_literal: true

require_relative "configuration_error"
require_relative "inheritance"
require_relative "inner_fibers"
require_relative "locale"
require_relative "source"

module NB
  module Rails
    # ActiveRecord in a program without Rails: Sinatra, Grape, a script. By itself it keeps its
    # state per thread: all fibers of a loop would share one connection, and one's INSERT go into
    # the other's transaction. In a loop the state is the fiber's, elsewhere the thread's as it was;
    # and connections and transactions are as with Rails ({Database}, {Inheritance}).
    module Alone
      # The notice when a program sets the isolation back to threads.
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

        # Where Rails is loaded and there is no application, whose railtie would do it.
        #
        # @param driver [Drivers::Driver]
        # @return [void]
        # @scheduling never waits
        def install_without_application(driver)
          return if @installed || !driver.on?

          install(driver) unless application?
        end

        # For ActiveSupport where neither ActiveRecord nor an application is there.
        #
        # @param driver [Drivers::Driver]
        # @return [void]
        # @scheduling never waits
        def install_state(driver)
          return if @installed || @state || !driver.on? || application? ||
                    ActiveSupport::IsolatedExecutionState.isolation_level == :fiber

          @state = true
          use_fibers
          Inheritance.install
        end

        # For I18n, likewise.
        #
        # @param driver [Drivers::Driver]
        # @return [void]
        # @scheduling never waits
        def install_locale(driver)
          return if @locale || !driver.on? || application?

          @locale = true
          Locale.install_alone(driver)
        end

        # @return [Boolean] whether Rails has an application, whose railtie knows what to do
        # @scheduling never waits
        def application?
          defined?(::Rails.application) && !::Rails.application.nil?
        end

        private

        # What the thread has stays with it: Rails would clear it.
        def use_fibers
          thread = Thread.current
          state = ActiveSupport::IsolatedExecutionState
          kept = state.isolation_level == :thread && thread.active_support_execution_state
          thread.active_support_execution_state = nil if kept
          state.isolation_level = :fiber
          InnerFibers.install
          thread.active_support_execution_state = kept if kept
        end

        def verify(driver)
          driver.notice(NOT_FIBERS) if
            driver.on? && ActiveSupport::IsolatedExecutionState.isolation_level != :fiber
        end
      end
    end
  end
end
