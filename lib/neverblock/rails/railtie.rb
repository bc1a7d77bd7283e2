# frozen_string_literal: true

require_relative "configuration_error"
require_relative "cures"
require_relative "isolation"
require_relative "sizing"

module NB
  # `gem "neverblock"` in the Gemfile of a Rails application (7.2 and later) is all: this room then
  # makes Rails fit for many requests on one thread.
  #
  # - Rails keeps its state per fiber instead of per thread, and that is verified ({Isolation}).
  # - `adapter: neverblock_postgresql` and the like, with `connections:` ({DatabaseConfig}).
  # - Connections are handed over in the order in which they were asked for ({ConnectionQueue}).
  # - What Rails still keeps per thread, or does on threads, is mended ({Cures}).
  #
  # The server is `rails server -u neverblock`, `nb serve`, or Puma with `plugin :neverblock`.
  module Rails
    # @example config/application.rb
    #   config.neverblock.enabled = false                 # leaves Rails as it is
    #   config.neverblock.leave_out = [:share_lock, :live]  # leaves these cures out; see {Cures}
    class Railtie < ::Rails::Railtie
      # The first Rails that gives a connection back after each query.
      OLDEST = "7.2"

      # @param version [String] of Rails
      # @return [void]
      # @raise [ConfigurationError] when it is too old
      # @scheduling never waits
      def self.check_version(version)
        return if Gem::Version.new(version) >= Gem::Version.new(OLDEST)

        raise ConfigurationError, "Rails #{version} is too old: NeverBlock needs #{OLDEST} or " \
                                  "later, which gives a connection back after each query. Raise " \
                                  "`gem \"rails\"` in the Gemfile, or take `gem \"neverblock\"` out"
      end

      config.neverblock = ActiveSupport::OrderedOptions.new
      config.neverblock.enabled = true
      config.neverblock.leave_out = []

      # When ActiveRecord::Base is loaded: after the application's lines, which may switch us off,
      # and before config/database.yml is read, also where no initializers run (dbconsole).
      config.before_configuration do
        check_version(::Rails::VERSION::STRING)
        ActiveSupport.on_load(:active_record) do
          if Railtie.config.neverblock.enabled
            require_relative "database"
            Database.install
          end
        end
      end

      # After Rails' own, which sets the level.
      initializer "neverblock.isolation", after: "active_support.isolation_level" do |app|
        config.after_initialize { Isolation.verify(app.root) if config.neverblock.enabled }
      end

      # What request_timeout ends is not the application's fault: 503, not 500.
      initializer "neverblock.timeouts", before: "action_dispatch.configure" do |app|
        next unless app.config.respond_to?(:action_dispatch)

        app.config.action_dispatch.rescue_responses["NB::Server::RequestTimeoutError"] =
          :service_unavailable
      end

      # After the application's lines, before anything of Rails is used.
      initializer "neverblock.cures", after: :load_environment_config,
                                      before: "active_record.initialize_database" do |app|
        if config.neverblock.enabled
          Isolation.set(app.config.active_support)
          Cures.install(config.neverblock.leave_out)
        end
      end

      # config.ru calls it forevery server, by `Rails.application.load_server`.
      server do |app|
        Sizing.new(app).check if config.neverblock.enabled && defined?(::ActiveRecord)
      end
    end
  end
end
