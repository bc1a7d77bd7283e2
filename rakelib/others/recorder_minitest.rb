# frozen_string_literal: true

# Loaded by `-r` into the process that runs tests with minitest.
require "minitest"
require_relative "recorder"
require_relative "without_bundler"

module Others
  module Recorder
    # What names have of each run: a Proc's number, a time.
    VARIES = /0x\h+[^>]*|\d\d:\d\d:\d\d(?:\.\d+)?/.freeze
    # In the list of differences a colon ends the name.
    COLON = /(?<!:):(?!:)/.freeze

    # For Minitest::Test.
    module Case
      def run
        name = "#{self.class}##{self.name}".gsub(VARIES, "0x").gsub(COLON, "")
        return Minitest::Result.from(self) if LEFT_OUT.include?(name)

        result = Recorder.test(name) { super }
        fate = result.passed? ? "passed" : "failed"
        Recorder.record(result.skipped? ? "skipped" : fate, name, result.failure)
        result
      end
    end

    # For Minitest. Extensions alias Test#run when they are loaded, and would find this one.
    module Start
      def run(*)
        Minitest::Test.prepend(Case)
        super
      end
    end
  end
end

Minitest.singleton_class.prepend(Others::Recorder::Start)
