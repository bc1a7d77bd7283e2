# frozen_string_literal: true

module NB
  class Server
    # The C half (ext/neverblock/server): listeners, connections, workers. What it asks of Ruby is
    # here.
    #
    # @api private
    class Core
      # @return [#call] gets the exception and the env of a failed request
      attr_writer :reporter
      # @return [AccessLog, nil]
      attr_writer :access_log
      # @return [Observer, nil]
      attr_writer :observer

      # @return [Ferry] from other threads into the loop's
      attr_writer :ferry

      # Called by C when a request is used in another thread than the loop's.
      def ferry(...) = @ferry.call(...)

      # Called by C when a request ended with an exception.
      def report_error(error, env) = @reporter.call(error, env)

      # @return [Boolean] whether {#log_access} shall be called
      def log? = !(@access_log || @observer).nil?

      # Called by C after each answer, if {#log?}.
      def log_access(*arguments)
        @access_log&.call(*arguments)
      ensure
        @observer&.call(*arguments)
      end
    end
  end
end
