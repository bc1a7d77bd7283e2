# frozen_string_literal: true

# Loaded by `-r` into the process that runs tests with sus.
require "sus"
require_relative "recorder"

# The configuration of async's tests measures what they cover.
$LOADED_FEATURES << "covered/sus.rb"
module Covered # :nodoc:
  Sus = Module.new
end

module Others
  module Recorder
    # For Sus::It.
    module Case
      def call(assertions)
        name = Recorder.full_name(self)
        return if LEFT_OUT.include?(name)

        own = Sus::Assertions.new(output: assertions.output.buffered, isolated: true)
        Recorder.test(name) { super(own) }
        fate = own.passed? ? "passed" : "failed"
        text = own.each_failure.first&.message&.fetch(:text) # of the first failed expectation
        Recorder.write(own.skipped.any? ? "skipped" : fate, name, text.to_s[0, 300])
        assertions.add(own)
      end
    end

    def self.full_name(test)
      parents = test.ancestors.grep(Class).take_while { |one| one != Sus::Base }
      words = parents.reverse.filter_map { |one| one.description&.to_s }
      words.reject { |word| word.include?("/") }.join(" ") # files
    end
  end
end

Sus::It.prepend(Others::Recorder::Case)
