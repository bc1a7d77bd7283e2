# frozen_string_literal: true

module NB
  module Rails
    # Reads `adapter: neverblock_postgresql` and `connections:` in config/database.yml and in
    # DATABASE_URL (neverblock-postgresql://…?connections=12), and translates them for Rails: the
    # adapter's own name, a pool of that size, and a checkout timeout long enough for as many
    # requests as a server admits. So `attribute :x, :jsonb`, `rails db:…`, dbconsole and other code
    # find the adapter they expect.
    #
    # | config/database.yml | default | becomes |
    # |---|---|---|
    # | `adapter: neverblock_<name>` | | `adapter: <name>` |
    # | `connections: 12` | 12 | `pool:`, or from Rails 8.1 on `max_connections:` |
    # | `checkout_timeout:` | 60 s, for other adapters too | as it is |
    module DatabaseConfig
      # Our names, and Rails' adapters for them. `neverblock_mysql` is trilogy if that is installed.
      ADAPTERS = {
        "neverblock_postgresql" => "postgresql", "neverblock_mysql2" => "mysql2",
        "neverblock_trilogy" => "trilogy", "neverblock_mysql" => nil,
        "neverblock_sqlite3" => "sqlite3"
      }.freeze
      # Rails' classes for them.
      CLASSES = { "postgresql" => "PostgreSQLAdapter", "mysql2" => "Mysql2Adapter",
                  "trilogy" => "TrilogyAdapter", "sqlite3" => "SQLite3Adapter" }.freeze
      # The default of `connections:`, as in the first NeverBlock.
      CONNECTIONS = 12
      # Seconds. If a thousand requests each want one of 12 connections for 0.7 s, the last waits
      # this long.
      CHECKOUT_TIMEOUT = 60

      # Prepended to every configuration, also to those of a class of the application
      # (`register_db_config_handler`). The Hash it is made from stays as it was written.
      module Entry
        # Works like Rails' own method, with the entry in Rails' terms.
        # @api private
        def initialize(env_name, name, configuration_hash)
          super(env_name, name, DatabaseConfig.translate(configuration_hash.symbolize_keys))
        end

        # @return [Float] seconds
        # @api private
        def checkout_timeout
          (configuration_hash[:checkout_timeout] || CHECKOUT_TIMEOUT).to_f
        end
      end

      # An address is read after the rest of the entry.
      module Url
        # Works like Rails' own method, then translates.
        # @api private
        def initialize(*)
          super
          @configuration_hash = DatabaseConfig.translate(@configuration_hash).freeze
        end
      end

      class << self
        # @return [void]
        # @scheduling never waits
        def install
          require "active_record/database_configurations"
          configurations = ::ActiveRecord::DatabaseConfigurations
          configurations::HashConfig.prepend(Entry)
          configurations::UrlConfig.prepend(Url)
          register_names
        end

        # @param config [Hash{Symbol => Object}] as in config/database.yml
        # @return [Hash{Symbol => Object}] in Rails' terms
        # @raise [ConfigurationError] for an unknown adapter or an invalid number
        # @scheduling never waits
        def translate(config)
          adapter = config[:adapter].to_s
          return config unless adapter.start_with?("neverblock_") || config[:connections]

          config.except(:connections, :pool, :max_connections).merge(
            { adapter: config[:adapter] && adapter_for(adapter), neverblock: true,
              size_key => connections(config) }.compact
          )
        end

        private

        # For code that asks Rails for an adapter's class by our name.
        def register_names
          ADAPTERS.each_key do |name|
            base = adapter_for(name)
            ::ActiveRecord::ConnectionAdapters.register(
              name, "ActiveRecord::ConnectionAdapters::#{CLASSES.fetch(base)}",
              "active_record/connection_adapters/#{base}_adapter"
            )
          end
        end

        def size_key
          ::ActiveRecord.gem_version >= Gem::Version.new("8.1.a") ? :max_connections : :pool
        end

        def adapter_for(name)
          return name unless name.start_with?("neverblock_")

          ADAPTERS.fetch(name) { raise ConfigurationError, unknown(name) } || mysql
        end

        def mysql
          gems = Gem.loaded_specs
          gems.key?("mysql2") && !gems.key?("trilogy") ? "mysql2" : "trilogy"
        end

        def connections(config)
          given = config[:connections] || config[:max_connections] || config[:pool] || CONNECTIONS
          number = Integer(given, exception: false)
          return number if number&.positive?

          raise ConfigurationError, "connections: must be 1 or more, got: #{given.inspect}" \
                                    "#{at(/connections:|pool:/)}"
        end

        def unknown(name)
          "adapter: #{name} is unknown#{at(/adapter:\s*["']?#{Regexp.escape(name)}/)}; there are " \
            "#{ADAPTERS.keys.join(", ")}. Without the prefix, as adapter: " \
            "#{name.delete_prefix("neverblock_")}, Rails looks for it"
        end

        def at(pattern)
          root = ::Rails.root if defined?(::Rails.root)
          place = root && Source.line(root, pattern, "config/database.yml")
          ", in #{place}" if place
        end
      end
    end
  end
end
