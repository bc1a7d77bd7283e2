# frozen_string_literal: true

require "rake/testtask"
require_relative "c_tests"
require_relative "test_files"

# Virtual time goes as the real one beside threads that the tests of another file have left. Of
# pools only so many names are told apart in a process.
by_itself = %w[test/loop/virtual_time_test.rb test/sync/pools_test.rb]
units = FileList["test/**/*_test.rb"]
  .exclude("test/contract/**/*", "test/server/**/*", "test/drivers/**/*", "test/rails/**/*",
           "test/legacy/**/*", "test/jobs/**/*", "test/eventmachine_test.rb",
           "test/{examples,cookbook}_test.rb", *by_itself)

# What takes longest begins first, so that nothing long goes on alone at the end.
long_rooms = %w[test/bench test/sync test/cli test/loop]
long_jobs = %w[sidekiq good_job good_job_stops doctor].map { |name| "test/jobs/#{name}_test.rb" }

namespace :test do
  desc "Run the unit tests"
  task unit: :compile do
    rooms = units.group_by { |file| File.dirname(file) }
    rooms = rooms.values_at(*long_rooms) | rooms.values
    TestFiles.run([*by_itself, *rooms], at_once: 2) or abort "a test file failed"
  end

  Rake::TestTask.new(examples: :compile) do |test|
    test.description = "Run the examples, those in the README and the programs of the cookbook"
    test.libs << "test"
    test.test_files = FileList["test/{examples,cookbook}_test.rb"]
    test.warning = false
  end

  each_alone = lambda do |files, at_once: 1|
    TestFiles.run(files, at_once: at_once) or abort "a test file failed"
  end

  # Two at once: most of the time each waits, and what one computes is taken off the other's gaps.
  task run_contract: :compile do
    each_alone.call(FileList["test/contract/**/*_test.rb"], at_once: 2)
  end

  desc "Run the tests of the Rack server"
  task(server: :compile) { each_alone.call(FileList["test/server/**/*_test.rb"], at_once: 2) }

  desc "Run the tests of drivers and client libraries, against real servers"
  # Several at once: they wait most of the time, and each has a network of its own.
  task drivers: :compile do
    each_alone.call(FileList["test/drivers/*_test.rb"], at_once: 2)
  end

  desc "Run the tests of the names of 2008 and of EventMachine, against real servers"
  task(legacy: :compile) do
    files = FileList["test/legacy/**/*_test.rb", "test/eventmachine_test.rb"]
    each_alone.call(files, at_once: 2)
  end

  desc "Run the tests of Rails, against real servers"
  task(rails: :compile) { each_alone.call(FileList["test/rails/**/*_test.rb"], at_once: 2) }

  desc "Run the tests of job queues, against real servers"
  # All at once: they wait for processes to boot and to end.
  task jobs: :compile do
    each_alone.call(long_jobs | FileList["test/jobs/**/*_test.rb"], at_once: 3)
  end

  desc "Run the contract of the hooks, in one world (epoll, poll, threads) or in all"
  task :contract, [:world] do |_, arguments|
    ENV["NB_WORLDS"] = arguments[:world] if arguments[:world]
    Rake::Task["test:run_contract"].invoke
  end

  desc "Run the tests of pure C under ASan and UBSan, one by name or all"
  task :c, [:name] do |_, arguments|
    CTests.run(*arguments.to_a.compact) or abort "a C test failed"
  end
end
