# frozen_string_literal: true

require_relative "job_queues"

module NB
  module CLI
    # `nb jobs`: runs the worker of a Rails application's job queue, with fibers.
    module Jobs
      # One line for the list of commands.
      SUMMARY = "run a Rails application's jobs in fibers (Solid Queue, GoodJob, Sidekiq)"
      # What `nb help jobs` prints.
      USAGE = <<~TEXT
        usage: nb jobs [options] [solid_queue|good_job|sidekiq]

        Starts the workers of the application in this folder, as its bin/jobs, good_job or sidekiq does, with
        jobs in fibers. Without a name, it starts the queue that is in the Gemfile.

        How many jobs run at once:

          Solid Queue  config/queue.yml. If no worker there has fibers:, each gets fibers: in place
                       of threads:
          GoodJob      config.good_job.fibers. If it is not set, nb jobs sets it
          Sidekiq      fibers: in config/sidekiq.yml, or config[:fibers] in the application. If neither
                       is set, nb jobs sets fibers: and concurrency:

        Where fibers is false, jobs run in threads.

          -f, --fibers N          jobs that one worker process runs at once, if the settings above do
                                  not say so (100)
          -e, --environment NAME  RAILS_ENV (development)
      TEXT

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status, once the workers have been stopped
        # @raise [UsageError]
        # @raise [Failure] without an application, or without a known queue
        # @scheduling always waits
        def run(argv)
          options = {fibers: 100}
          names = parse(argv, options)
          raise UsageError, "takes one queue, got: #{names.join(" ")}" if names.size > 1
          raise UsageError, "--fibers: must be at least 1, got: #{options[:fibers]}" unless
            options[:fibers].positive?

          start(names.first, options)
        end

        private

        def parse(argv, options)
          CLI.parse(argv) do |on|
            on.on("-f", "--fibers N", Integer) { |count| options[:fibers] = count }
            on.on("-e", "--environment NAME") { |name| options[:environment] = name }
          end
        end

        def start(name, options)
          raise UsageError, "unknown queue #{name.inspect}; known are " \
                            "#{JobQueues::ALL.keys.join(", ")}" if
            name && !JobQueues::ALL.key?(name)
          raise Failure, "there is no config/environment.rb: start it in the folder of a Rails " \
                         "application" unless File.file?("config/environment.rb")

          $stdout.sync = true # what jobs log there is read while they run
          ENV["RAILS_ENV"] = options[:environment] if options[:environment]
          boot = File.expand_path("config/boot.rb")
          require boot if File.file?(boot)
          JobQueues::ALL.fetch(name || only_one).start(options[:fibers])
          0
        end

        # The application's settings are known only once it has booted, and Sidekiq must be loaded
        # before that.
        def only_one
          found = JobQueues::ALL.keys.select { |name| Gem.loaded_specs.key?(name) }
          return found.first if found.one?

          raise Failure, "the Gemfile has #{found.empty? ? "none" : found.join(" and ")} of the " \
                         "queues #{JobQueues::ALL.keys.join(", ")}: name one, as in " \
                         "nb jobs solid_queue"
        end
      end
    end
  end
end
