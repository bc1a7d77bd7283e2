# frozen_string_literal: true

require "minitest"

# Writes the name of the running test into the file that NB_CURRENT_TEST names, so whoever started
# this process can say which test hung or crashed it. Before the first test the file says ".",
# between tests "-".
module CurrentTest
  FILE = ENV.delete("NB_CURRENT_TEST")

  # Wraps the methods of Minitest that run all tests, and one test.
  module Telling
    def run(...)
      CurrentTest.tell(".")
      super
    end

    def run_one_method(test_class, method, ...)
      CurrentTest.tell("#{test_class}##{method}")
      super.tap { CurrentTest.tell("-") }
    end
  end

  def self.tell(text)
    File.write(FILE, text) if File.file?(FILE)
  end

  Minitest.singleton_class.prepend(Telling) if FILE
end
