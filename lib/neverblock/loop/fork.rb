# frozen_string_literal: true

require_relative "../native"
require_relative "repairs"

module NB
  # Uses Ruby's own extension point for forks (Process._fork). The child's loop starts clean, with
  # only the fiber that forked; the parent's registrations are untouched.
  module Fork
    # Seconds for which a fork waits until nothing is in the middle that it would break off.
    PATIENCE = 2
    private_constant :PATIENCE
    @in_child = []
    @breaking = []

    class << self
      # Registers a block that runs in every forked child, after the loop was cleared.
      #
      # @return [void]
      # @api private
      def in_child(&block) = @in_child << block

      # Registers a block that tells whether a fork would leave the child with something half done
      # by another thread or fiber, such as a locked mutex of a C library. Then forks wait.
      #
      # @return [void]
      # @api private
      def not_while(&block) = @breaking << block

      # Waits until nothing speaks against a fork, or the time is over.
      #
      # @return [void]
      # @api private
      def wait_until(deadline)
        sleep 0.001 until may?(deadline)
      end

      # @return [Boolean] whether nothing speaks against a fork now, or the time is over
      # @api private
      def may?(deadline)
        !Repairs.main? || @breaking.none?(&:call) || now >= deadline
      end

      # @return [Float] seconds
      # @api private
      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      # The first thing a child does.
      # @api private
      def begin_child
        Native.after_fork
      ensure # a trap handler may have raised
        @in_child.each(&:call)
      end

      # Forks by {Process._fork}, through which all of Ruby's forks go but one.
      #
      # @yield forks
      # @yieldreturn [Integer] the child's pid, 0 in the child
      # @return [Integer] the same
      # @api private
      def during
        deadline = now + PATIENCE
        loop do
          wait_until(deadline)
          pid = Native.without_signals do
            next unless may?(deadline) # another thread had its turn meanwhile

            yield.tap { |child| begin_child if child.zero? }
          end
          return pid if pid
        end
      end

      # Forks by {Process.daemon}; only the child returns.
      #
      # @yield forks
      # @api private
      def daemon
        wait_until(now + PATIENCE)
        Native.without_signals { yield.tap { begin_child } }
      end
    end

    # In place, as repairs are: a module in front would be in the way of tests that replace these
    # methods by aliases for a while.
    Repairs.repair(Process.singleton_class, :_fork) do |original|
      proc { Fork.during { __send__(original) } }
    end
    Repairs.repair(Process.singleton_class, :daemon) do |original|
      proc { |*arguments| Fork.daemon { __send__(original, *arguments) } }
    end
  end
end
