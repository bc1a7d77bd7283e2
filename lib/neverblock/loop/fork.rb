# frozen_string_literal: true

require_relative "../native"

module NB
  # Ruby's own extension point for forks (Process._fork): the child's loop starts clean, with only
  # the fiber that forked; the parent's registrations are untouched.
  module Fork
    # @return [Integer] as Process._fork: the child's pid, 0 in the child
    # @api private
    def _fork
      pid = super
      Native.after_fork if pid.zero?
      pid
    end

    # Forks without asking {#_fork}.
    # @api private
    def daemon(...)
      super.tap { Native.after_fork }
    end
  end
end

Process.singleton_class.prepend(NB::Fork)
