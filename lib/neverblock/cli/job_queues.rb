# frozen_string_literal: true

require_relative "../../neverblock"

module NB
  module CLI
    # How `nb jobs` starts each job queue that it knows.
    module JobQueues
      # Solid Queue's supervisor, with what config/queue.yml says.
      module SolidQueue
        # @param fibers [Integer] of each worker, if none has its own
        # @return [void]
        # @scheduling always waits
        def self.start(fibers)
          require File.expand_path("config/environment")
          require "solid_queue"
          ::SolidQueue::Supervisor.start(**with_fibers(read, fibers))
        end

        # @param config [Hash] config/queue.yml
        # @param fibers [Integer]
        # @return [Hash] the same, with workers in fibers
        def self.with_fibers(config, fibers)
          config = { workers: [{}], dispatchers: [{}] } if config.empty? # as Solid Queue
          workers = config.fetch(:workers, [])
          return config if workers.any? { |worker| worker.key?(:fibers) }

          { **config,
            workers: workers.map { |worker| { **worker.except(:threads), fibers: fibers } } }
        end

        def self.read
          path = ENV.fetch("SOLID_QUEUE_CONFIG", "config/queue.yml") # as Solid Queue
          return {} unless File.file?(path)

          config = ActiveSupport::ConfigurationFile.parse(path).deep_symbolize_keys
          (config[::Rails.env.to_sym] || config).slice(:workers, :dispatchers, :scheduler)
        end
        private_class_method :read
      end

      # Sidekiq's own program, with what config/sidekiq.yml says.
      module Sidekiq
        # @param fibers [Integer] `concurrency:`, unless the file has `fibers:`
        # @return [void]
        # @scheduling always waits
        def self.start(fibers)
          require "sidekiq/cli"
          cli = ::Sidekiq::CLI.instance
          cli.parse([])
          unless cli.config[:fibers]
            cli.config[:fibers] = true
            cli.config.default_capsule.concurrency = fibers
          end
          cli.run
        end
      end

      # By the name of the gem.
      ALL = { "solid_queue" => SolidQueue, "sidekiq" => Sidekiq }.freeze
    end
  end
end
