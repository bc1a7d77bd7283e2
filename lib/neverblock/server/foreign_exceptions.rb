# frozen_string_literal: true

require "timeout"

module NB
  class Server
    # Exceptions that other threads raise in the thread that serves, which belongs to all requests
    # (Thread#raise). A library that reads in a thread of its own, such as mqtt, does so when its
    # connection breaks, and means the thread that has connected: elsewhere a thread of one request.
    # Nobody knows whose it was, so no request ends, and the server continues.
    #
    # @api private
    module ForeignExceptions
      # Starts the entry in the log.
      REPORT = "another thread raised this in the thread of all requests (Thread#raise): "
      private_constant :REPORT

      # How many may come together: each further one strikes while the one before is dealt with.
      TOGETHER = 5
      private_constant :TOGETHER

      # Waits, and waits again after such an exception.
      #
      # @param report [#call] gets the exception and what to begin its report with
      # @yield something that only waits, and raises nothing of its own
      # @return what the block returns
      # @raise what ends any program: signals, a timeout, and the exception of a thread with
      #   `abort_on_exception`
      # @scheduling always waits
      def self.outlive(report)
        struck = []
        value = fatal = nil
        ended = false
        until ended
          collect(struck, TOGETHER) do
            fatal = tell(struck, report)
            value = yield unless fatal
            ended = true
          end
        end
        fatal ? raise(fatal) : value
      end

      # Runs the block, and collects what strikes in it, or in the `rescue` of an inner level.
      def self.collect(struck, levels, &block)
        levels.zero? ? yield : collect(struck, levels - 1, &block)
      rescue StandardError => error
        struck << error
      end

      # @return [StandardError, nil] the first that ends the program
      def self.tell(struck, report)
        while (error = struck.first)
          return error if error.is_a?(::Timeout::Error) || ended_thread?(error)

          struck.shift
          report.call(error, REPORT)
        end
      end
      private_class_method :collect, :tell

      # Thread.list has only those that live.
      def self.ended_thread?(error)
        ObjectSpace.each_object(Thread).any? do |thread|
          next unless thread.status.nil? && (thread.abort_on_exception || Thread.abort_on_exception)

          begin
            thread.join
          rescue Exception => raised # rubocop:disable Lint/RescueException -- only compared
            raised.equal?(error)
          end
        end
      end
      private_class_method :ended_thread?
    end
  end
end
