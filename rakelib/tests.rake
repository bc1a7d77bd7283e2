# frozen_string_literal: true

require "rake/testtask"
require_relative "c_tests"

unit = FileList["test/**/*_test.rb"]
  .exclude("test/contract/**/*", "test/server/**/*", "test/examples_test.rb")

namespace :test do
  Rake::TestTask.new(unit: :compile) do |test|
    test.description = "Run the unit tests"
    test.libs << "test"
    test.test_files = unit
    test.warning = false
  end

  Rake::TestTask.new(server: :compile) do |test|
    test.description = "Run the tests of the Rack server"
    test.libs << "test"
    test.test_files = FileList["test/server/**/*_test.rb"]
    test.warning = false
  end

  Rake::TestTask.new(examples: :compile) do |test|
    test.description = "Run the examples and those in the README, and compare what they print"
    test.libs << "test"
    test.test_files = FileList["test/examples_test.rb"]
    test.warning = false
  end

  Rake::TestTask.new(run_contract: :compile) do |test|
    test.description = nil
    test.libs << "test"
    test.test_files = FileList["test/contract/**/*_test.rb"]
    test.warning = false
  end

  desc "Run the contract of the hooks, in one world (epoll, poll, threads) or in all"
  task :contract, [:world] do |_, arguments|
    ENV["NB_WORLDS"] = arguments[:world] if arguments[:world]
    Rake::Task["test:run_contract"].invoke
  end

  desc "Run the tests of pure C under ASan and UBSan, one by name or all"
  task :c, [:name] do |_, arguments|
    CTests.run(*arguments) or abort "a C test failed"
  end
end
