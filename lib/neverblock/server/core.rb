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
      attr_accessor :access_log

      # Called by C when a request ended with an exception.
      def report_error(error, env) = @reporter.call(error, env)

      # Called by C after each answer when there is an access log.
      def log_access(*arguments) = @access_log.call(*arguments)
    end
  end
end
