# frozen_string_literal: true

require_relative "sidekiq_facts"

module NB
  class Doctor
    # What a booted Rails application says about its job queues. {Boot} asks it in the application's
    # own process.
    module JobFacts
      class << self
        # @return [Array<Hash{Symbol => Object}>] for each queue, and there for workers with threads
        #   and with fibers: its name, how many worker processes one supervisor starts, how many
        #   jobs each runs at most at once, whether in fibers, whether a job keeps its connection,
        #   the databases with their connections: the queue's and the application's, and how many
        #   seconds a stop waits for jobs (nil: until all have ended)
        # @scheduling never waits
        # @api private
        def collect
          { SolidQueue: :solid_queue, GoodJob: :good_job, Sidekiq: :sidekiq }
            .select { |name, _| Object.const_defined?(name) }.flat_map do |_, facts|
            send(facts)
          rescue StandardError
            [] # settings that the queue itself refuses when it starts
          end
        end

        private

        def solid_queue
          processes = ::SolidQueue::Configuration.new(skip_recurring: true).configured_processes
          workers = processes.select { |process| process.kind == :worker }.map(&:attributes)
          workers.group_by { |worker| worker.key?(:fibers) }.map do |fibers, some|
            at_once = some.map { |worker| worker.fetch(fibers ? :fibers : :threads, 3) }.max
            { queue: "Solid Queue", processes: some.size, fibers: fibers, keeps: false,
              at_once: at_once, databases: databases(::SolidQueue::Record),
              stop: ::SolidQueue.shutdown_timeout.to_f }
          end
        end

        def good_job
          settings = ::GoodJob.configuration
          [{ queue: "GoodJob", processes: 1, fibers: good_job_fibers?,
             at_once: settings.respond_to?(:threads) ? settings.threads : settings.max_threads,
             keeps: settings.lock_strategy != :skiplocked, databases: databases(::GoodJob::Job),
             stop: settings.shutdown_timeout.then { |seconds| seconds.negative? ? nil : seconds } }]
        end

        def good_job_fibers?
          defined?(NB::Drivers::GoodJob) && NB::Drivers::GoodJob.fibers? ? true : false
        end

        def sidekiq
          settings = SidekiqFacts.new(::Rails.root, ::Rails.env)
          [{ queue: "Sidekiq", processes: 1, fibers: settings.fibers?, keeps: false,
             at_once: settings.at_once, databases: databases, stop: settings.stop }]
        end

        def databases(*models)
          [*models, ::ActiveRecord::Base].map(&:connection_pool).uniq.map do |pool|
            { name: pool.db_config.name, pool: pool.size }
          end
        end
      end
    end
  end
end
