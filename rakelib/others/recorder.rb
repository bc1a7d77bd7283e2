# frozen_string_literal: true

# What the recorders of the test frameworks share: writes a line of JSON when a test starts, and one
# for each of its results. With OTHERS_INSIDE each test runs in a fiber of a loop.
# OTHERS_GEMS names gems and the versions that the project knows, where ours are newer.
ENV.fetch("OTHERS_GEMS", "").split(",").each { |words| gem(*words.split(" ", 2)) }
require "json"
require "neverblock" if ENV["OTHERS_INSIDE"]

module Others
  # Writes down what happens to each test.
  module Recorder
    FILE = File.open(ENV.fetch("OTHERS_RESULTS"), "a").tap { |file| file.sync = true }
    PROCESS = Process.pid
    # Tests that hung in an earlier process.
    LEFT_OUT = ENV.fetch("OTHERS_LEFT_OUT", "").split("\n").freeze

    # Children that a test forks say nothing.
    def self.write(*words)
      FILE.syswrite("#{JSON.generate(words)}\n") if PROCESS == Process.pid
    end

    # @param error [Exception, nil]
    def self.record(fate, name, error)
      write(fate, name, *(text(error) if error))
    end

    def self.text(error)
      error.message.to_s.b.encode("UTF-8", invalid: :replace, undef: :replace)[0, 300]
    end

    # Runs the block, which is the test, where this process runs them.
    def self.test(name)
      write("start", name)
      return yield unless ENV["OTHERS_INSIDE"]

      result = nil
      NB.run { result = yield }
      result
    end
  end
end
