# frozen_string_literal: true

# Loaded by `-r` into the process that runs another project's tests with the test/unit of Ruby's
# sources. Writes a line of JSON when a test starts, and one for each of its results. With
# OTHERS_INSIDE each test runs in a fiber of a loop.
require "json"
require "neverblock" if ENV["OTHERS_INSIDE"]

module Others
  # What the tests are given.
  module Recorder
    FILE = File.open(ENV.fetch("OTHERS_RESULTS"), "a").tap { |file| file.sync = true }
    PROCESS = Process.pid
    # Tests that hung in an earlier process.
    LEFT_OUT = ENV.fetch("OTHERS_LEFT_OUT", "").split("\n").freeze

    # Children that a test forks say nothing.
    def self.write(*words)
      FILE.syswrite("#{JSON.generate(words)}\n") if PROCESS == Process.pid
    end

    def self.text(error)
      error.message.to_s.b.encode("UTF-8", invalid: :replace, undef: :replace)[0, 300]
    end

    # For Test::Unit::TestCase.
    module Case
      def run(runner)
        name = "#{self.class}##{__name__}"
        return "" if LEFT_OUT.include?(name)

        Recorder.write("start", name)
        return super unless ENV["OTHERS_INSIDE"]

        result = nil
        NB.run { result = super }
        result
      end
    end

    # For Test::Unit::Runner.
    module Runner
      def record(*words)
        suite, method, _assertions, _time, error = words
        fate = Recorder.fate(error)
        Recorder.write(fate, "#{suite}##{method}", *(Recorder.text(error) if error))
        super
      end
    end

    def self.fate(error)
      return "passed" unless error

      error.is_a?(Test::Unit::PendedError) ? "skipped" : "failed"
    end

    # Ruby's sources have a test/unit of their own, which their runner loads after this file.
    def self.await
      TracePoint.new(:end) do |point|
        next unless point.self.name == "Test::Unit::AutoRunner"

        point.disable
        Test::Unit::TestCase.prepend(Case)
        Test::Unit::Runner.prepend(Runner)
      end.enable
    end
  end
end

Others::Recorder.await
