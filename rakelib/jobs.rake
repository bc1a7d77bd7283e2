# frozen_string_literal: true

namespace :jobs do
  desc "Measure the workers of a queue: so often, so many jobs, of so many ms, calls, streams or " \
       "computes (solid_queue, good_job, sidekiq)"
  task :measure, [:times, :jobs, :milliseconds, :shape, :queue] => :compile do |_, arguments|
    ruby "-Ilib", "-Itest", "test/jobs/measure.rb", *arguments.to_a
  end

  desc "Kill, stop and start the workers of a queue (solid_queue, solid_queue_sqlite3, " \
       "solid_queue_mysql2, solid_queue_trilogy, good_job, sidekiq) during so many jobs; is one " \
       "lost, or run twice? (tests: fibers, threads)"
  task :storm, [:queue, :jobs, :tests] => :compile do |_, arguments|
    queue, adapter = arguments.fetch(:queue, "solid_queue").split(/(?<=queue)_/)
    file = [queue, "storm", adapter, "test.rb"].compact.join("_")
    ENV["NB_STORM"] = arguments.fetch(:jobs, "3000")
    ruby "-Ilib", "-Itest", "test/jobs/#{file}", "-n", "/#{arguments.fetch(:tests, "fibers")}/"
  end
end
