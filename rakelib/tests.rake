# frozen_string_literal: true

require "rake/testtask"
require_relative "c_tests"

unit = FileList["test/**/*_test.rb"]
  .exclude("test/contract/**/*", "test/server/**/*", "test/drivers/**/*", "test/rails/**/*",
           "test/legacy/**/*", "test/eventmachine_test.rb", "test/examples_test.rb")

namespace :test do
  Rake::TestTask.new(unit: :compile) do |test|
    test.description = "Run the unit tests"
    test.libs << "test"
    test.test_files = unit
    test.warning = false
  end

  Rake::TestTask.new(examples: :compile) do |test|
    test.description = "Run the examples and those in the README, and compare what they print"
    test.libs << "test"
    test.test_files = FileList["test/examples_test.rb"]
    test.warning = false
  end

  # Each file in a process of its own: children, memory maps and garbage of one would slow down the
  # forks and wait for the children of another. A file that fails is tried again, since a busy host
  # stops the machine for 100 ms now and then; the output says which.
  passes = lambda do |file|
    (1..3).any? do |try|
      output = IO.popen([RbConfig.ruby, "-Ilib:test", file, { err: %i[child out] }], &:read)
      passed = $?.success? # rubocop:disable Style/SpecialGlobalVars
      puts "== #{file}\n#{output}" if passed || try == 3
      failures = output.scan(/^  +\d+\) .+\n.+/).join("\n")
      warn "tried again: #{file}\n#{failures}" if !passed && try < 3
      passed
    end
  end

  each_alone = lambda do |files, at_once: 1|
    left = files.to_a.dup
    failed = Thread::Queue.new
    working = Array.new(at_once) do
      Thread.new do
        while (file = left.shift)
          failed << file unless passes.call(file)
        end
      end
    end
    working.each(&:join)
    failed = Array.new(failed.size) { failed.pop }
    abort "failed: #{failed.join(", ")}" unless failed.empty?
  end

  task(run_contract: :compile) { each_alone.call(FileList["test/contract/**/*_test.rb"]) }

  desc "Run the tests of the Rack server"
  task(server: :compile) { each_alone.call(FileList["test/server/**/*_test.rb"]) }

  desc "Run the tests of drivers and client libraries, against real servers"
  # Several at once: they wait most of the time, and each has a network of its own.
  task drivers: :compile do
    each_alone.call(FileList["test/drivers/*_test.rb"], at_once: 4)
  end

  desc "Run the tests of the names of 2008 and of EventMachine, against real servers"
  task(legacy: :compile) do
    each_alone.call(FileList["test/legacy/**/*_test.rb", "test/eventmachine_test.rb"])
  end

  desc "Run the tests of Rails, against real servers"
  task(rails: :compile) { each_alone.call(FileList["test/rails/**/*_test.rb"]) }

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
