# frozen_string_literal: true

module NB
  module Rails
    # Prepended to ActiveRecord's pool. A fiber whose connection could not be opened tells
    # {ConnectionQueue}, and the waiter that learns of it tries to open one.
    module Room
      private

      # Works like Rails' own method.
      def try_to_checkout_new_connection(...)
        ended = false
        super.tap { ended = true }
      ensure
        @available.tell_of_room unless ended
      end

      # Works like Rails' own method, until there is a connection.
      def acquire_connection(timeout)
        start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        left = timeout
        until (connection = super(left))
          left = [timeout - (Process.clock_gettime(Process::CLOCK_MONOTONIC) - start), 0].max
        end
        connection
      end
    end
  end
end
