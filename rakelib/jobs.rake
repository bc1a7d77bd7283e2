# frozen_string_literal: true

namespace :jobs do
  desc "Measure the workers of a queue: so often, so many jobs, of so many ms, calls, streams or " \
       "computes (solid_queue, good_job, sidekiq)"
  task :measure, [:times, :jobs, :milliseconds, :shape, :queue] => :compile do |_, arguments|
    ruby "-Ilib", "-Itest", "test/jobs/measure.rb", *arguments.to_a
  end

  # Runs the tests of a storm with these words in their names; calls ended with whether all passed.
  storm = lambda do |name, jobs, tests, &ended|
    queue, adapter = name.split(/(?<=queue)_/)
    file = [queue, "storm", adapter, "test.rb"].compact.join("_")
    abort "rake jobs:storm: there is no storm for #{name}" unless File.exist?("test/jobs/#{file}")

    ENV["NB_STORM"] = jobs
    ruby "-Ilib", "-Itest", "test/jobs/#{file}", "-n", "/#{tests}/", &ended
  end

  desc "Kill, stop and start the workers of a queue (solid_queue, solid_queue_sqlite3, " \
       "solid_queue_mysql2, solid_queue_trilogy, good_job, sidekiq) during so many jobs; is one " \
       "lost, or run twice? (tests: fibers, threads)"
  task :storm, [:queue, :jobs, :tests] => :compile do |_, arguments|
    storm.call(arguments.fetch(:queue, "solid_queue"), arguments.fetch(:jobs, "3000"),
               arguments.fetch(:tests, "fibers"))
  end

  desc "The same with the fibers of every queue and database, one after the other"
  task :great_storm, [:jobs] => :compile do |_, arguments|
    queues = %w[solid_queue solid_queue_mysql2 solid_queue_trilogy solid_queue_sqlite3 good_job
                sidekiq]
    jobs = arguments.fetch(:jobs, "20000")
    red = []
    queues.each { |queue| storm.call(queue, jobs, "fibers") { |ok, _| red << queue unless ok } }
    abort "jobs:great_storm: failed with #{red.join(", ")}" if red.any?
  end
end
