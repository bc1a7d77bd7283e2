# frozen_string_literal: true

require_relative "source"

module NB
  module Rails
    # Reports, when a server starts, how many connections each database gets, and whether it has
    # that many.
    class Sizing
      # How to ask each kind of database for its limit.
      LIMIT = {
        "postgresql" => "SELECT setting::int FROM pg_settings WHERE name = 'max_connections'",
        "mysql2" => "SELECT @@max_connections", "trilogy" => "SELECT @@max_connections"
      }.freeze

      # @param app [Rails::Application]
      def initialize(app)
        @root = app.root
      end

      # @return [void]
      # @raise [ConfigurationError] if a pool is larger than its database allows
      # @scheduling may wait
      def check
        configs = ::ActiveRecord::Base.configurations.configs_for(env_name: ::Rails.env)
        return if configs.empty?

        configs.each { |config| check_limit(config) if config.configuration_hash[:neverblock] }
        ::Rails.logger&.info(
          "NeverBlock: Rails state per fiber. " \
          "#{configs.map { |config| describe(config) }.join("; ")}. " \
          "Further requests queue for a connection, and beyond the server's fibers " \
          "(1,024, unless configured) for a fiber"
        )
      end

      private

      def size(config)
        config.respond_to?(:max_connections) ? config.max_connections : config.pool
      end

      def describe(config)
        advice = " (a pool for threads: `adapter: neverblock_#{config.adapter}` and " \
                 "`connections:` in config/database.yml make it one for fibers)"
        "#{config.name}: #{size(config) || "unlimited"} connections, a request waits up to " \
          "#{config.checkout_timeout.round} s for one" \
          "#{advice unless config.configuration_hash[:neverblock]}"
      end

      def check_limit(config)
        sql = LIMIT[config.adapter] or return
        limit = ask(config, sql) or return
        return if size(config).nil? || size(config) <= limit

        place = Source.line(@root, /(?:connections|pool):/, "config/database.yml")
        raise ConfigurationError,
              "connections: #{size(config)} of #{config.name} is more than its database allows " \
              "(max_connections is #{limit}, for all processes together): lower " \
              "#{place || "it in config/database.yml"}, or raise max_connections of the database"
      end

      # Asks once, on a connection of its own. A database that is not up yet cannot be asked. Behind
      # pgbouncer and the like, the database's limit is not ours.
      def ask(config, sql)
        connection = config.new_connection
        return if proxied?(connection)

        Integer(connection.select_value(sql))
      rescue ::ActiveRecord::ActiveRecordError => error
        ::Rails.logger&.warn("NeverBlock: #{config.name} could not be asked for max_connections: " \
                             "#{error.message.lines.first&.strip}")
        nil
      ensure
        connection&.disconnect!
      end

      # A proxy between us and PostgreSQL invents the process id that clients get for cancelling.
      def proxied?(connection)
        raw = connection.raw_connection
        raw.respond_to?(:backend_pid) &&
          raw.backend_pid != connection.select_value("SELECT pg_backend_pid()")
      end
    end
  end
end
