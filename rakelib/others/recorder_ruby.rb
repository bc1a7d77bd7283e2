# frozen_string_literal: true

# Loaded by `-r` into the process that runs tests with the test/unit of Ruby's sources.
require_relative "recorder"

module Others
  module Recorder
    # For Test::Unit::TestCase.
    module Case
      def run(runner)
        name = "#{self.class}##{__name__}"
        LEFT_OUT.include?(name) ? "" : Recorder.test(name) { super }
      end
    end

    # For Test::Unit::Runner.
    module Runner
      def record(*words)
        suite, method, _assertions, _time, error = words
        Recorder.record(Recorder.fate(error), "#{suite}##{method}", error)
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
