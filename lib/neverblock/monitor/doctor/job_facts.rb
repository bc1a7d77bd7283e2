# frozen_string_literal: true

module NB
  class Doctor
    # What a booted Rails application says about its job queues. {Boot} asks it in the application's
    # own process.
    module JobFacts
      class << self
        # @return [Array<Hash{Symbol => Object}>] for each queue: its name, how many worker
        #   processes one supervisor starts, how many jobs each runs at most at once, whether in
        #   fibers, whether a job keeps its connection, and the database with its connections
        # @scheduling never waits
        # @api private
        def collect
          { SolidQueue: :solid_queue, GoodJob: :good_job }.filter_map do |name, facts|
            send(facts) if Object.const_defined?(name)
          rescue StandardError
            nil # settings that the queue itself refuses when it starts
          end
        end

        private

        def solid_queue
          processes = ::SolidQueue::Configuration.new(skip_recurring: true).configured_processes
          workers = processes.select { |process| process.kind == :worker }.map(&:attributes)
          fibers = workers.filter_map { |worker| worker[:fibers] }.max
          { queue: "Solid Queue", processes: workers.size, fibers: !fibers.nil?, keeps: false,
            at_once: fibers || workers.map { |worker| worker.fetch(:threads, 3) }.max,
            **pool(::SolidQueue::Record) }
        end

        def good_job
          settings = ::GoodJob.configuration
          { queue: "GoodJob", processes: 1, fibers: good_job_fibers?,
            at_once: settings.respond_to?(:threads) ? settings.threads : settings.max_threads,
            keeps: settings.lock_strategy != :skiplocked, **pool(::GoodJob::Job) }
        end

        def good_job_fibers?
          defined?(NB::Drivers::GoodJob) && NB::Drivers::GoodJob.fibers? ? true : false
        end

        def pool(model)
          pool = model.connection_pool
          { database: pool.db_config.name, pool: pool.size }
        end
      end
    end
  end
end
