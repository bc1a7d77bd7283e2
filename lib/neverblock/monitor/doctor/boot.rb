# frozen_string_literal: true

require "json"
require "open3"
require "rbconfig"
require "timeout"

module NB
  class Doctor
    # Boots a Rails application in a process of its own, as a server would, and asks it.
    class Boot
      # Seconds until it must have booted.
      PATIENCE = 60
      # Runs in the application's folder.
      SCRIPT = <<~'RUBY'
        require "json"
        answer = $stdout.dup
        $stdout.reopen($stderr)
        require "./config/environment"
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
        answer.puts JSON.generate(
          rails: Rails::VERSION::STRING, environment: Rails.env,
          isolation: ActiveSupport::IsolatedExecutionState.isolation_level,
          neverblock: defined?(NB::Rails) && !NB::Rails.autoload?(:Railtie) ? true : false,
          databases: databases.call, middleware: Rails.application.middleware.map(&:name),
          gems: Gem.loaded_specs.transform_values { |spec| spec.version.to_s },
          drivers: defined?(NB::Drivers) ? NB::Drivers.status.map(&:to_h) : []
        )
      RUBY
      # This NeverBlock, for applications that require it without Bundler.
      LIB = File.expand_path("../../..", __dir__)
      private_constant :SCRIPT, :LIB

      # @param folder [String]
      # @param patience [Numeric] seconds
      def initialize(folder, patience: PATIENCE)
        @folder = folder
        @patience = patience
      end

      # @return [Hash{String => Object}, String] what the application says, or why it does not boot
      # @scheduling always waits
      def facts
        out, errors, status = run
        return "it takes longer than #{@patience} s" unless status
        return JSON.parse(out) if status.success?

        errors.lines.map(&:strip).find { |line| !line.match?(/\A(\S+:\d+: warning:.*)?\z/) } ||
          "exit #{status.exitstatus} without a word"
      end

      private

      def run
        command = [RbConfig.ruby, "-I#{LIB}", "-e", SCRIPT]
        Open3.popen3(*command, chdir: @folder, pgroup: true) do |input, *pipes, child|
          input.close
          readers = pipes.map { |pipe| Thread.new { pipe.read } }
          next [*readers.map(&:value), child.value] if child.join(@patience)

          Process.kill(:KILL, -child.pid)
          readers.map(&:value)
        end
      end
    end
  end
end
