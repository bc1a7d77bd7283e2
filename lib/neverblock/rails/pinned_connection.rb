# frozen_string_literal: true

module NB
  module Rails
    # Finds fibers that hold a connection while they wait for something else (an HTTP call). Others
    # then wait for the connection while the database is idle. It looks only while somebody waits,
    # so it costs nothing otherwise, and logs each place in the program once.
    module PinnedConnection
      # Frames inside which a fiber waits for the database itself.
      DATABASE = /[`'#](?:with_raw_connection|verify!|connect!|reconnect!)'/
      # Logger writes with a lock that fibers which compute hand to each other: Rails logs a query
      # while it still has the connection.
      LOG = %r{/logger/log_device\.rb:}
      # Frames inside which a fiber may hold a connection.
      NO_FAULT = Regexp.union(DATABASE, LOG)
      # The start of paths of our own frames.
      OURS = File.expand_path("..", __dir__)
      # How many logged places are remembered.
      PLACES = 100
      @logged = {}

      class << self
        # @param pool [ActiveRecord::ConnectionAdapters::ConnectionPool]
        # @return [void]
        # @scheduling never waits
        def look(pool)
          held(pool).each do |connection, backtrace|
            next if backtrace.empty? || backtrace.any?(NO_FAULT)

            place = places(backtrace).first || backtrace.first
            next if @logged[place] || @logged.size >= PLACES

            @logged[place] = true
            text = report(connection, backtrace)
            beside { logger&.warn(text) }
          end
        end

        # @return [String] where each connection in use is held, one line each
        # @api private
        def holders(pool)
          held(pool).map { |_, backtrace| "    #{places(backtrace).first || backtrace.first}" }
            .tally.map { |line, count| "#{line}#{" (#{count} times)" if count > 1}" }.join("\n")
        end

        private

        def held(pool)
          pool.connections.filter_map do |connection|
            owner = connection.owner
            [connection, owner.backtrace || []] if owner && owner != ActiveSupport::IsolatedExecutionState.context
          end
        end

        # The application's own lines, or others that are neither Ruby's, Rails' nor ours.
        def places(backtrace)
          (::Rails.backtrace_cleaner.clean(backtrace).presence if defined?(::Rails.application)) ||
            backtrace.grep_v(/#{Regexp.escape(OURS)}|<internal:/)
        end

        def logger = (defined?(::Rails.logger) ? ::Rails : ::ActiveRecord::Base).logger

        # The caller holds the pool's lock, and a log may be slow.
        def beside(&block) = NB.running? ? Fiber.schedule(&block) : Thread.new(&block)

        def report(connection, backtrace)
          "NeverBlock: a fiber holds a database connection while it waits for something else, " \
            "and others wait for the connection. #{cure(connection)}. It waits here (logged " \
            "once):\n    #{places(backtrace).first(12).join("\n    ")}"
        end

        def cure(connection)
          return "Move the slow call out of the transaction" if connection.transaction_open?

          "Use `with_connection { |connection| … }` instead of `connection` or " \
            "`lease_connection`, which keep it until the request ends"
        end
      end
    end
  end
end
