# frozen_string_literal: true

require_relative "child"

module NB
  class Doctor
    # Boots a Rails application in a process of its own, as a server would, and questions it.
    class Boot
      # Runs in the application's folder.
      SCRIPT = <<~'RUBY'
        require "json"
        answer = $stdout.dup
        $stdout.reopen($stderr)
        require "./config/environment"
        require "neverblock/monitor/doctor/job_facts"
        limit = lambda do |config|
          sql = { "postgresql" => "SELECT setting FROM pg_settings WHERE name = 'max_connections'",
                  "mysql2" => "SELECT @@max_connections",
                  "trilogy" => "SELECT @@max_connections" }[config.adapter] or next
          connection = config.new_connection
          Integer(connection.select_value(sql))
        rescue StandardError
          nil # it need not be reachable from here
        ensure
          connection&.disconnect!
        end
        databases = lambda do
          next [] unless defined?(ActiveRecord::Base)

          ActiveRecord::Base.configurations.configs_for(env_name: Rails.env).map do |config|
            size = config.respond_to?(:max_connections) ? config.max_connections : config.pool
            { name: config.name, adapter: config.adapter, pool: size,
              checkout_timeout: config.checkout_timeout, limit: limit.call(config),
              pooler: config.configuration_hash[:prepared_statements] == false }
          end
        end
        # The gems of the groups that Rails loads, and those that something has loaded.
        gems = lambda do
          specs = Gem.loaded_specs
          next specs unless defined?(Bundler) && ENV["BUNDLE_GEMFILE"]

          names = Bundler.definition.specs_for(Rails.groups.map(&:to_sym)).map(&:name)
          specs.select do |name, spec|
            names.include?(name) || spec.full_require_paths.any? do |path|
              $LOADED_FEATURES.any? { |feature| feature.start_with?("#{path}/") }
            end
          end
        end
        answer.puts JSON.generate(
          rails: Rails::VERSION::STRING, environment: Rails.env,
          isolation: ActiveSupport::IsolatedExecutionState.isolation_level,
          neverblock: defined?(NB::Rails) && !NB::Rails.autoload?(:Railtie) ? true : false,
          databases: databases.call, middleware: Rails.application.middleware.map(&:name),
          jobs: NB::Doctor::JobFacts.collect,
          gems: gems.call.transform_values { |spec| spec.version.to_s },
          drivers: defined?(NB::Drivers) ? NB::Drivers.status.map(&:to_h) : []
        )
      RUBY
      private_constant :SCRIPT

      # @param folder [String]
      def initialize(folder)
        @folder = folder
      end

      # @return [Hash{String => Object}, String] the application's answers, or why it does not boot
      # @scheduling always waits
      def facts = Child.new(@folder).ask(SCRIPT)
    end
  end
end
