# frozen_string_literal: true

require "timeout"

module NB
  class Server
    # Exceptions that other threads raise in the thread that serves, which belongs to all requests
    # (Thread#raise). A library that reads in a thread of its own, such as mqtt, does so when its
    # connection breaks, and means the thread that has connected: elsewhere a thread of one request.
    # Nobody knows whose it was, so no request ends, and the server goes on.
    #
    # @api private
    module Strays
      # Starts the entry in the log.
      REPORT = "another thread raised this in the thread of all requests (Thread#raise): "
      private_constant :REPORT

      # @param commands [Thread::Queue]
      # @yieldparam error [Exception]
      # @yieldparam what [String] to begin its report with
      # @return [Object] the next command
      # @raise what ends any program: signals, a timeout, and the exception of a thread with
      #   `abort_on_exception`
      # @scheduling always waits
      def self.pop(commands)
        commands.pop
      rescue StandardError => error
        raise if error.is_a?(::Timeout::Error) || ended_thread?(error)

        yield error, REPORT
        retry
      end

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
