# frozen_string_literal: true

require_relative "../../neverblock"

module NB
  module CLI
    # Starts each job queue that `nb jobs` knows.
    module JobQueues
      # Solid Queue's supervisor, with the settings of config/queue.yml.
      module SolidQueue
        # @param fibers [Integer] for workers that do not set their own
        # @return [void]
        # @scheduling always waits
        def self.start(fibers)
          require File.expand_path("config/environment")
          require "solid_queue"
          ::SolidQueue::Supervisor.start(**with_fibers(read, fibers))
        end

        # @param config [Hash] config/queue.yml
        # @param fibers [Integer]
        # @return [Hash] the same, with `fibers:` for each worker
        def self.with_fibers(config, fibers)
          config = { workers: [{}], dispatchers: [{}] } if config.empty? # as in Solid Queue
          workers = config.fetch(:workers, [])
          return config if workers.any? { |worker| worker.key?(:fibers) }

          { **config,
            workers: workers.map { |worker| { **worker.except(:threads), fibers: fibers } } }
        end

        def self.read
          path = ENV.fetch("SOLID_QUEUE_CONFIG", "config/queue.yml") # as in Solid Queue
          return {} unless File.file?(path)

          config = ActiveSupport::ConfigurationFile.parse(path).deep_symbolize_keys
          (config[::Rails.env.to_sym] || config).slice(:workers, :dispatchers, :scheduler)
        end
        private_class_method :read
      end

      # Sidekiq's own program, with the settings of config/sidekiq.yml.
      module Sidekiq
        # @param fibers [Integer] `concurrency:`, unless the file sets `fibers:`
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

      # GoodJob's own command, with what `config.good_job` says.
      module GoodJob
        # @param fibers [Integer] of each group of queues, unless the application has set `fibers`
        # @return [void]
        # @scheduling always waits
        def self.start(fibers)
          require File.expand_path("config/environment")
          require "good_job/cli"
          configuration = ::GoodJob.configuration
          unless Drivers::GoodJob.fibers?
            threads = configuration.respond_to?(:threads) ? :threads : :max_threads # before 4.22
            configuration.options.merge!(fibers: true, threads => fibers)
          end
          ::GoodJob::CLI.within_exe = true
          ::GoodJob::CLI.start(["start"])
        end
      end

      # The queues, by the name of their gem.
      ALL = { "solid_queue" => SolidQueue, "good_job" => GoodJob, "sidekiq" => Sidekiq }.freeze
    end
  end
end
