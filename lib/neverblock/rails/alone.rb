# frozen_string_literal: true

require_relative "configuration_error"
require_relative "inheritance"
require_relative "inner_fibers"
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
          ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
          InnerFibers.install
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

          install(driver) unless ::Rails.respond_to?(:application) && ::Rails.application
        end

        private

        def verify(driver)
          driver.notice(NOT_FIBERS) if
            driver.on? && ActiveSupport::IsolatedExecutionState.isolation_level != :fiber
        end
      end
    end
  end
end
