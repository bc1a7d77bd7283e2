# frozen_string_literal: true

require_relative "../../neverblock"
require_relative "job_trouble"

module NB
  module CLI
    # Starts each job queue that `nb jobs` knows.
    module JobQueues
      # Solid Queue's supervisor, with the settings of config/queue.yml.
      module SolidQueue
        # What makes its tables.
        TABLES = "bin/rails solid_queue:install and bin/rails db:prepare (in a new application " \
                 "that is for production only: -e production)"
        private_constant :TABLES

        # @param fibers [Integer] for workers that do not set their own
        # @return [void]
        # @scheduling always waits
        def self.start(fibers)
          require File.expand_path("config/environment")
          JobQueues.load("solid_queue")
          config = read
          JobTrouble.database(::SolidQueue::Process, TABLES)
          config = with_fibers(config, fibers) if JobQueues.fibers?("solid_queue")
          ::SolidQueue::Supervisor.start(**config)
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

          config = JobTrouble.settings(path) { ActiveSupport::ConfigurationFile.parse(path) } || {}
          raise Failure, "#{path}: must have settings, got: #{config.inspect}" unless
            config.is_a?(Hash)

          config = config.deep_symbolize_keys
          config = (config[::Rails.env.to_sym] || config).slice(:workers, :dispatchers, :scheduler)
          JobTrouble.workers(path, config[:workers]) if config.key?(:workers)
          config
        end
        private_class_method :read
      end

      # Sidekiq's own program, with the settings of config/sidekiq.yml and of the application.
      module Sidekiq
        # @param fibers [Integer] `concurrency:`, unless the application sets `fibers`
        # @return [void]
        # @scheduling always waits
        def self.start(fibers)
          JobQueues.load("sidekiq", "sidekiq/cli")
          cli = ::Sidekiq::CLI.instance
          JobTrouble.settings("config/sidekiq.yml") { cli.parse([]) }
          cli.send(:boot_application) # its initializers may set it, too
          JobTrouble.settings { set(cli.config, fibers) }
          JobTrouble.redis(cli.config)
          cli.run(boot_app: false)
        end

        def self.set(config, fibers)
          said = FibersSetting.read(config[:fibers])
          return JobQueues.threads("Sidekiq") if said == false

          return unless JobQueues.fibers?("sidekiq") && said.nil?

          config[:fibers] = true
          config.default_capsule.concurrency = fibers
        end
        private_class_method :set
      end

      # GoodJob's own command, with what `config.good_job` says.
      module GoodJob
        class << self
          # @param fibers [Integer] of each group of queues, unless the application has set `fibers`
          # @return [void]
          # @scheduling always waits
          def start(fibers)
            require File.expand_path("config/environment")
            JobQueues.load("good_job", "good_job/cli")
            JobTrouble.settings { Drivers::GoodJob.told? ? check : set(fibers) } if
              JobQueues.fibers?("good_job")
            JobTrouble.database(::GoodJob::Process,
                                "bin/rails generate good_job:install and bin/rails db:migrate")
            ::GoodJob::CLI.within_exe = true
            ::GoodJob::CLI.start(["start"])
          end

          private

          def check = (JobQueues.threads("GoodJob") unless Drivers::GoodJob.fibers?)

          def set(fibers)
            configuration = ::GoodJob.configuration
            threads = configuration.respond_to?(:threads) ? :threads : :max_threads # before 4.22
            configuration.options.merge!(fibers: true, threads => fibers)
            queues = configuration.queue_string
            warn("nb jobs: GoodJob's queues #{queues.inspect} say how many jobs run at once; " \
                 "--fibers is for groups without a number") if queues.match?(/:\s*\d/)
          end
        end
      end

      class << self
        # @param name [String] of the queue's gem
        # @param feature [String] of that gem
        # @return [void]
        # @raise [Failure] without the gem
        # @api private
        def load(name, feature = name)
          require feature
        rescue LoadError => error
          raise unless error.path == feature

          raise Failure, missing(name)
        end

        # Says that a queue is left as the application has it.
        # @param queue [String]
        # @return [void]
        # @api private
        def threads(queue)
          warn("nb jobs: the application sets #{queue}'s fibers to false: its jobs run in threads")
        end

        # Otherwise a number of fibers would become a number of threads.
        # @param name [String] of the queue's gem
        # @return [Boolean] whether its jobs can run in fibers; if not, it says why
        # @raise [Failure] if the application has not loaded the gem
        # @api private
        def fibers?(name)
          reason = refusal(name) or return true
          warn("nb jobs: #{reason}: #{name} runs as the application has set it, in threads")
          false
        end

        private

        def missing(name) = "the application has no gem #{name}: put it into the Gemfile"

        def refusal(name)
          driver = Drivers.status.find { |one| one.name == name }
          raise Failure, missing(name) if driver.state == :"not loaded"
          return "NeverBlock's part for it is off (#{driver})" unless driver.state == :on
          return "config.neverblock.enabled is false" unless Drivers::JobLoop.wanted?

          "Solid Queue #{::SolidQueue::VERSION} has no fibers, 1.6 has them" if
            name == "solid_queue" && !::SolidQueue::Pool.respond_to?(:build)
        end
      end

      # The queues, by the name of their gem.
      ALL = { "solid_queue" => SolidQueue, "good_job" => GoodJob, "sidekiq" => Sidekiq }.freeze
    end
  end
end
