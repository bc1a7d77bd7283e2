# frozen_string_literal: true

require_relative "configuration_error"
require_relative "cures"
require_relative "isolation"
require_relative "sizing"

module NB
  # A Rails application (7.2 and later) needs nothing but `gem "neverblock"` in its Gemfile: this
  # room then makes Rails fit for many requests on one thread.
  #
  # - Rails keeps its state per fiber instead of per thread, and that is verified ({Isolation}).
  # - `adapter: neverblock_postgresql` and the like work, with `connections:` ({DatabaseConfig}).
  # - Connections are handed out in order of arrival ({ConnectionQueue}).
  # - What Rails still keeps per thread, or does on threads, is cured ({Cures}).
  #
  # The server is `rails server -u neverblock`, `nb serve`, or Puma with `plugin :neverblock`.
  module Rails
    # @example config/application.rb
    #   config.neverblock.enabled = false                 # leaves Rails as it is
    #   config.neverblock.leave_out = [:share_lock, :live]  # leaves these cures out; see {Cures}
    class Railtie < ::Rails::Railtie
      # The first Rails that returns a connection after each query.
      OLDEST = "7.2"

      # @param version [String] of Rails
      # @return [void]
      # @raise [ConfigurationError] if it is too old
      # @scheduling never waits
      def self.check_version(version)
        return if Gem::Version.new(version) >= Gem::Version.new(OLDEST)

        raise ConfigurationError, "Rails #{version} is too old: NeverBlock needs #{OLDEST} or " \
                                  "later, which gives a connection back after each query. Raise " \
                                  "`gem \"rails\"` in the Gemfile, or take `gem \"neverblock\"` out"
      end

      # Rails runs no initializer of a railtie that is loaded later than the first of them. Loops
      # refuse to run then.
      #
      # @return [void]
      # @scheduling never waits
      def self.watch_order
        Scheduler.before_open do
          Isolation.refuse_late if config.neverblock.enabled && ::Rails.application&.initialized?
        end
      end

      config.neverblock = ActiveSupport::OrderedOptions.new
      config.neverblock.enabled = true
      config.neverblock.leave_out = []

      # Runs when ActiveRecord::Base is loaded: after the application's lines, which may disable us,
      # and before config/database.yml is read, even where no initializers run (dbconsole).
      config.before_configuration do
        check_version(::Rails::VERSION::STRING)
        ActiveSupport.on_load(:active_record) do
          if Railtie.config.neverblock.enabled
            require_relative "database"
            Database.install
          end
        end
      end

      # Beside the requests, in /metrics.
      initializer "neverblock.jobs" do
        ActiveSupport.on_load(:active_job) do
          if Railtie.config.neverblock.enabled
            require_relative "counted_jobs"
            CountedJobs.install
          end
        end
      end

      # Runs after Rails' own initializer, which sets the level.
      initializer "neverblock.isolation", after: "active_support.isolation_level" do |app|
        config.after_initialize { Isolation.verify(app.root) if config.neverblock.enabled }
      end

      # A request ended by request_timeout is not the application's fault: 503, not 500.
      initializer "neverblock.timeouts", before: "action_dispatch.configure" do |app|
        next unless app.config.respond_to?(:action_dispatch)

        app.config.action_dispatch.rescue_responses["NB::Server::RequestTimeoutError"] =
          :service_unavailable
      end

      # Nor is a body that the server refused. It is read before the error pages, by
      # Rack::MethodOverride, and within them.
      initializer "neverblock.refused_body", after: :load_environment_config do |app|
        if config.neverblock.enabled && app.config.respond_to?(:action_dispatch)
          require_relative "refused_body"
          app.config.middleware.insert_after(ActionDispatch::Executor, RefusedBody)
          app.config.middleware.insert_before(ActionDispatch::Callbacks, RefusedBody)
        end
      end

      # Runs after the application's lines, before anything of Rails is used.
      initializer "neverblock.cures", after: :load_environment_config,
                                      before: "active_record.initialize_database" do |app|
        if config.neverblock.enabled
          Isolation.set(app.config.active_support)
          Cures.install(config.neverblock.leave_out)
        end
      end

      # config.ru calls this for every server, through `Rails.application.load_server`.
      server do |app|
        Sizing.new(app).check if config.neverblock.enabled && defined?(::ActiveRecord)
      end
    end
  end
end
