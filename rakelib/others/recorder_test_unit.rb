# frozen_string_literal: true

# Loaded by `-r` into the process that runs tests with the gem test-unit.
require "test/unit"
require "test/unit/testresult"
require_relative "recorder"
require_relative "without_bundler"

module Others
  module Recorder
    # In the list of differences a colon ends the name.
    COLON = /(?<!:):(?!:)/.freeze

    # For Test::Unit::TestCase.
    module Case
      def run(*)
        name = "#{self.class.name || self.class}##{method_name}".gsub(COLON, "")
        return if LEFT_OUT.include?(name)

        Recorder.faults.clear
        result = Recorder.test(name) { super }
        Recorder.write(*(Recorder.faults.min || ["passed"]).insert(1, name))
        result
      end
    end

    # For Test::Unit::TestResult.
    module Result
      { add_error: "failed", add_failure: "failed", add_omission: "skipped",
        add_pending: "skipped" }.each do |name, fate|
        define_method(name) do |fault|
          Recorder.faults << [fate, Recorder.text(fault)]
          super(fault)
        end
      end
    end

    # What went wrong in the test that runs.
    def self.faults = @faults ||= []
  end
end

Test::Unit::TestCase.prepend(Others::Recorder::Case)
Test::Unit::TestResult.prepend(Others::Recorder::Result)
