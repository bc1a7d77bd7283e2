# frozen_string_literal: true

require_relative "registry"
require_relative "../fibers_setting"
require_relative "job_loop"

module NB
  module Drivers
    # GoodJob runs jobs on a pool of threads for each group of queues. With
    # `config.good_job.fibers = 100` (or GOOD_JOB_FIBERS=100), the pool is a loop's fibers, on one
    # thread ({Executor}); with `true` they are as many as `threads`. Nothing else changes:
    # LISTEN/NOTIFY, polling, locks, cron, batches, retries, concurrency controls and stops stay
    # GoodJob's own.
    #
    # By default GoodJob locks a job by an advisory lock of PostgreSQL. This belongs to a
    # connection, so each running job keeps one. With GoodJob's own setting
    # `config.good_job.lock_strategy = :skiplocked`, jobs share connections.
    module GoodJob
      # What the command line may say of threads; the second one was the only one before 4.22.
      THREADS = %i[threads max_threads].freeze
      private_constant :THREADS

      # Prepended to the singleton class of GoodJob::Scheduler::ThreadPoolExecutor.
      module Build
        # Works like GoodJob's own method. A group of queues with no threads has no fibers, either.
        # @api private
        def new(options)
          return super unless GoodJob.fibers? && options.fetch(:max_threads).positive?

          GoodJob.check_connections(options[:name], options.fetch(:max_threads))
          Executor.new(options)
        end
      end

      # Prepended to GoodJob::Capsule.
      module Start
        # Works like GoodJob's own method, but refuses a wrong `fibers` before GoodJob's threads
        # start: the process would end while they load code. RubyGems drops the end of such a
        # thread in Ruby 3.1, so the process would stay forever.
        # @raise [ArgumentError]
        # @api private
        def start(...)
          GoodJob.fibers?
          super
        end
      end

      # Prepended to GoodJob::Configuration: `threads`, before 4.22 `max_threads`, are the fibers of
      # each group of queues that has no number of its own.
      module Count
        # @param name [Symbol] of GoodJob's method
        # @return [Module]
        # @api private
        def self.for(name)
          Module.new { define_method(name) { GoodJob.count(options, super()) } }
        end
      end

      # Prepended to GoodJob::JobPerformer.
      module Performer
        # Works like GoodJob's own method. A stopped job is no error, so no reporter sees one.
        # @api private
        def next(...)
          super
        rescue JobLoop::Stopped
          nil
        end
      end

      # Prepended to GoodJob::ActiveJobExtensions::Concurrency::Rule.
      module Rule
        # Works like GoodJob's own method, but what it does before a job leases no connection until
        # the end of that job.
        # @api private
        def evaluate(...)
          return super unless JobLoop.current

          ::GoodJob::Job.connection_pool.with_connection(prevent_permanent_checkout: true) { super }
        end
      end

      # Prepended to the singleton class of ActiveJob::Base.
      module Execution
        # Works like Active Job's own method, which a stop may end.
        # @api private
        def execute(job_data)
          jobs = JobLoop.current
          jobs ? jobs.cancellable { super } : super
        end
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          require_relative "good_job/executor"
          ::GoodJob::JobPerformer.prepend(Performer)
          ::GoodJob::Capsule.prepend(Start)
          ::GoodJob::Scheduler::ThreadPoolExecutor.singleton_class.prepend(Build)
          ::GoodJob::Configuration.prepend(Count.for(threads_setting))
          ::GoodJob::ActiveJobExtensions::Concurrency::Rule.prepend(Rule)
          ActiveSupport.on_load(:active_job) { singleton_class.prepend(Execution) }
          JobStop.install
        end

        # @return [Symbol] what GoodJob calls the number of its threads
        # @api private
        def threads_setting
          ::GoodJob::Configuration.method_defined?(:threads) ? :threads : :max_threads
        end

        # @return [Boolean] whether the application wants fibers
        # @raise [ArgumentError] if it says anything else
        # @api private
        def fibers?
          return false unless @driver&.on? && JobLoop.wanted?

          FibersSetting.read(setting(:fibers)) ? true : false
        end

        # @param options [Hash] of the command line
        # @param threads [Integer] that GoodJob would start for each group of queues
        # @return [Integer] how many jobs of each group run at once
        # @raise [ArgumentError] as {fibers?}
        # @api private
        def count(options, threads)
          wanted = FibersSetting.read(setting(:fibers)) if fibers?
          return threads unless wanted.is_a?(Integer)
          return threads if !options.key?(:fibers) && (options.keys & THREADS).any?

          text = FibersSetting.conflict(wanted, threads_setting, threads)
          @driver.notice(text) if text
          wanted
        end

        # @return [Boolean] whether the application says anything of fibers
        # @api private
        def told? = !setting(:fibers).nil?

        # @param group [String, nil] of queues
        # @param fibers [Integer] of this group; those of others count, too
        # @return [void]
        # @api private
        def check_connections(group, fibers)
          strategy = ::GoodJob.configuration.lock_strategy
          pool = ::GoodJob::Job.connection_pool.size # nil: unlimited
          fibers = (@groups ||= {}).update(group => fibers).each_value.sum
          return if strategy == :skiplocked || pool.nil? || fibers <= pool

          @driver.notice(
            "#{fibers} fibers, but only #{pool} jobs run at once: with lock_strategy " \
            "#{strategy.inspect} each keeps a database connection. Set config.good_job." \
            "lock_strategy = :skiplocked (docs/JOBS.md: through :hybrid while others run)"
          )
        end

        private

        # Looks in the order in which GoodJob does.
        def setting(name)
          configuration = ::GoodJob.configuration
          [configuration.options[name], ::Rails.application&.config&.good_job&.[](name),
           configuration.env["GOOD_JOB_#{name.upcase}"]].find { |value| !value.nil? }
        end
      end
    end

    # From the first version whose state belongs to fibers.
    register("good_job", constant: "GoodJob::Scheduler", version: "GoodJob::VERSION",
                         versions: [">= 4.19", "< 5"]) do |driver|
      GoodJob.install(driver)
    end
  end
end
