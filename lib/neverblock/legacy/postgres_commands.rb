# frozen_string_literal: true

require_relative "names"

module NB
  module Legacy
    # What the connection pool of the first article (2008) did for PostgreSQL: it sends a command,
    # stops the fiber, and lets the program's own `select` say which answers have arrived. With a
    # loop none of this is needed, and `exec` simply waits.
    module PostgresCommands
      # A connection for whose answer a fiber waits, and which wakes that fiber when the answer has
      # arrived.
      module Command
        # @return [Fiber, nil] the waiting fiber
        attr_accessor :waiting

        # Call this when the socket is readable: it reads what has arrived, and resumes the fiber
        # when the answer is complete.
        #
        # @return [void]
        # @scheduling never waits; the fiber runs until it next stops
        def process_command
          fiber = waiting or return
          begin
            consume_input
            return if is_busy

            answer = take_answer
          rescue PG::Error => error
            answer = error
          end
          self.waiting = nil
          fiber.resume(answer)
        end

        private

        def take_answer
          last = nil
          while (result = get_result)
            last = result
          end
          last
        end
      end

      # The socket of a connection, with a reference to it.
      module Socket
        # @return [PG::Connection]
        attr_accessor :connection
      end

      # Runs a command.
      #
      # @param sql [String]
      # @param async [Boolean] true: other fibers run meanwhile, through the loop or, without one,
      #   through the program's own `select` of {#sockets}; false: everything waits
      # @return [PG::Result]
      # @raise [PG::Error]
      # @scheduling may wait
      def exec(sql, async = false)
        return exec_blocking(sql) if !async || ::Fiber.current.blocking?

        hold do |connection|
          ::Fiber.current_scheduler ? connection.exec(sql) : exec_without_loop(connection, sql)
        end
      end

      # @return [Array<IO>] to select for reading; call `io.connection.process_command` for each
      def sockets
        @busy_connections.each_value.filter_map do |connection|
          next unless connection.is_a?(Command) && connection.waiting

          connection.socket_io.extend(Socket).tap { |io| io.connection = connection }
        end
      end

      private

      def postgres_connect(options)
        raise ArgumentError, "needs a block, or what PG.connect takes" if options.empty?

        @blocking_connection = DB::FiberedPostgresConnection.new(**options)
        -> { DB::FiberedPostgresConnection.new(**options) }
      end

      def exec_blocking(sql)
        NB.blocking { (@blocking_connection ||= @connect.call).exec(sql) }
      end

      def exec_without_loop(connection, sql)
        connection.extend(Command).send_query(sql)
        connection.waiting = ::Fiber.current
        answer = ::Fiber.yield
        raise answer if answer.is_a?(::Exception)

        answer.check
        answer
      end
    end
  end
end
