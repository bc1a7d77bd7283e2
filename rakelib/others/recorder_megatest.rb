# frozen_string_literal: true

# Loaded by `-r` into the process that runs tests with Megatest.
require "megatest"
require "megatest/cli"
require_relative "recorder"

module Others
  module Recorder
    MEGATEST_FATES = Hash.new("failed").merge(success: "passed", skipped: "skipped").freeze

    # For Megatest::Runner.
    module Runner
      def execute(test_case)
        name = test_case.id
        return Megatest::TestCaseResult.new(test_case) if LEFT_OUT.include?(name)

        result = Recorder.test(name) { super }
        Recorder.record(MEGATEST_FATES[result.status], name, result.failure)
        result
      end
    end
  end
end

Megatest::Runner.prepend(Others::Recorder::Runner)
