# frozen_string_literal: true

module NB
  class Server
    # The C half (ext/neverblock/server): listeners, connections, workers. This file has what C asks
    # of Ruby.
    #
    # @api private
    class Core
      FILES_SHORT = [Errno::EMFILE::Errno, Errno::ENFILE::Errno].freeze
      private_constant :FILES_SHORT

      # @return [#call] called with the exception and the env of a failed request
      attr_writer :reporter
      # @return [AccessLog, nil]
      attr_writer :access_log
      # @return [Observer, nil]
      attr_writer :observer

      # @return [Collections, nil]
      attr_writer :collections

      # @return [LoopCalls] from other threads into the loop's
      attr_writer :loop_calls

      # C calls this when another thread than the loop's uses a request.
      def call_in_loop(...) = @loop_calls.call(...)

      # Accepts what the kernel has let in, and nothing after that, so the listeners can be closed.
      # @return [Boolean] false: fds or memory are short; call it again
      def leave(bindings) = accept_last(bindings.map(&:backlog).max)

      # Called by C where the loop rests, while a full collection of garbage is due.
      def collect(running) = @collections.rest(running)

      # Called by C when a request ended with an exception.
      def report_error(error, env) = @reporter.call(error, env)

      # Called by C when the disk did not take a request's body.
      def report_not_stored(number)
        words = "a request body was refused, #{cure(number)}"
        @reporter.call(SystemCallError.new(words, number), nil)
      rescue StandardError
        nil # the log may be on that disk
      end

      # @return [Boolean] whether C has to call {#log_access}
      def log? = !(@access_log || @observer).nil?

      # C calls this after each response, if {#log?}.
      def log_access(*arguments)
        @access_log&.call(*arguments)
      ensure
        @observer&.call(*arguments)
      end

      private

      # What to do about a body that could not be stored. C takes /tmp if TMPDIR is no folder.
      def cure(number)
        return "raise the limit of open files (ulimit -n)" if FILES_SHORT.include?(number)

        folder = ENV.fetch("TMPDIR", "")
        "make room in #{File.directory?(folder) ? folder : "/tmp"} or change TMPDIR"
      end
    end
  end
end
