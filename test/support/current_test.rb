# frozen_string_literal: true

require "minitest"

# Writes the name of the running test into the file that NB_CURRENT_TEST names, so whoever started
# this process can say which test hung or crashed it. Before the first test the file says ".",
# between tests "-". A test that skips says why on standard error, where `bin/test` counts the
# reasons.
module CurrentTest
  FILE = ENV.delete("NB_CURRENT_TEST")
  # Starts the line of a test that skips.
  SKIPPED = "skipped: "

  # Wraps the methods of Minitest that run all tests, and one test.
  module Telling
    def run(...)
      CurrentTest.tell(".")
      super
    end

    def run_one_method(test_class, method, ...)
      CurrentTest.tell("#{test_class}##{method}")
      super.tap do |result|
        CurrentTest.tell("-")
        CurrentTest.say_why(result) if result.skipped?
      end
    end
  end

  def self.tell(text)
    File.write(FILE, text) if File.file?(FILE)
  end

  def self.say_why(result)
    why = result.failure.message.lines.first.to_s.chomp
    $stderr.write("#{SKIPPED}#{result.class_name}##{result.name}: #{why}\n")
  end

  Minitest.singleton_class.prepend(Telling) if FILE
end
