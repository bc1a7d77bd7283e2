# frozen_string_literal: true

# RubyGems 3.3, of Ruby 3.1, looks for a file under a monitor that it enters and exits by hand. An
# exception that strikes there (a timeout, a cancel) leaves it entered, and RubyGems raises
# "CRITICAL: RUBYGEMS_ACTIVATION_MONITOR.owned?" in place of that exception. A thread gives the
# monitor back at its end; a fiber never does, and whoever calls `require` next waits forever.
# Later versions synchronize. In a loop, here `require` exits the monitor and raises what struck.
if Kernel.const_defined?(:RUBYGEMS_ACTIVATION_MONITOR)
  module NB
    module Repairs
      # How the message of RubyGems begins.
      CRITICAL = "CRITICAL: RUBYGEMS_ACTIVATION_MONITOR"
      private_constant :CRITICAL

      class << self
        # @yield what may leave the monitor entered
        # @return the block's value
        # @api private
        def without_monitor
          monitor = RUBYGEMS_ACTIVATION_MONITOR
          return yield if monitor.mon_owned?

          begin
            yield
          rescue RuntimeError => error
            raise unless error.cause && error.message.start_with?(CRITICAL)

            raise error.cause
          ensure
            monitor.exit while monitor.mon_owned?
          end
        end
      end

      # Also in the blocking fiber of an autoload, for which no scheduler is the current one.
      repair(Kernel, :require) do |original|
        proc do |path|
          next __send__(original, path) unless Fiber.scheduler.is_a?(Scheduler)

          Repairs.without_monitor { __send__(original, path) }
        end
      end
    end
  end
end
