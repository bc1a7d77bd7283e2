# frozen_string_literal: true

namespace :soak do
  desc "Put the server under full load and every fault of clients for so many seconds"
  task :server, [:seconds, :seed] => :compile do |_, arguments|
    ruby "-Ilib", "-Itest", "test/server/soak/run.rb", *arguments.to_a
  end

  desc "Run jobs for so many seconds, with faults, stops and restarts: solid_queue, " \
       "good_job, sidekiq"
  task :jobs, [:seconds, :queue, :seed] => :compile do |_, arguments|
    ruby "-Ilib", "-Itest", "test/jobs/soak.rb", *arguments.to_a
  end

  desc "Check that no byte of one client reaches another, while workers are replaced"
  task :identity, [:seconds, :seed, :clients, :signals] => :compile do |_, arguments|
    ruby "-Ilib", "-Itest", "test/server/identity/run.rb", *arguments.to_a
  end

  desc "The same by TLS, a handshake for each request or two"
  task :tls, [:seconds, :seed, :clients, :signals] => :compile do |_, arguments|
    run = [600, Random.rand(1_000_000), 100, "HUP"].zip(arguments.to_a).map { |a, b| (b || a).to_s }
    ruby "-Ilib", "-Itest", "test/server/identity/run.rb", *run, "tls"
  end
end
