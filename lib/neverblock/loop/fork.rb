# frozen_string_literal: true

require_relative "../native"

module NB
  # Uses Ruby's own extension point for forks (Process._fork). The child's loop starts clean, with
  # only the fiber that forked; the parent's registrations are untouched.
  module Fork
    @in_child = []

    class << self
      # Registers a block that runs in every forked child, after the loop was cleared.
      #
      # @return [void]
      # @api private
      def in_child(&block) = @in_child << block

      # The first thing a child does.
      # @api private
      def begin_child
        Native.after_fork
      ensure # a trap handler may have raised
        @in_child.each(&:call)
      end
    end

    # @return [Integer] as Process._fork: the child's pid, 0 in the child
    # @api private
    def _fork
      Native.without_signals do
        pid = super
        Fork.begin_child if pid.zero?
        pid
      end
    end

    # Forks without going through {#_fork}.
    # @api private
    def daemon(...)
      Native.without_signals { super.tap { Fork.begin_child } }
    end
  end
end

Process.singleton_class.prepend(NB::Fork)
