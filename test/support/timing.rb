# frozen_string_literal: true

require "minitest"

# A time limit was exceeded: the loop stood still, or something came late. Only such a failure may
# be the machine's fault. A wrong value, a leak, a hang or a crash is never one of these.
class TimingFailure < Minitest::Assertion; end

# If a test fails by nothing but {TimingFailure}s, it runs again, once, in the same process and with
# the same seed. That is reported on standard error, where `bin/test` counts it. A test that fails
# twice has failed.
module Timing
  # Starts the report of a repetition.
  MARK = "repeated after a timing failure: "

  # Repeats such tests.
  module Repeating
    def run
      result = super
      return result if @again || !Timing.alone?(result.failures)

      why = result.failures.first.message.lines.first&.chomp
      $stderr.write("#{Timing::MARK}#{self.class}##{name}: #{why}\n") # also under -W0
      srand(Minitest.seed)
      again = self.class.new(name).tap { |test| test.instance_variable_set(:@again, true) }
      again.run.tap { |last| last.failures.map! { |failure| Timing.plain(failure) } }
    end
  end

  # For tests.
  module Assertions
    # @param limit [Float] seconds
    # @raise [TimingFailure]
    def assert_in_time(took, limit, message = "took too long")
      self.assertions += 1
      return if took < limit

      raise TimingFailure, format("%s: %.3f s, at most %.3f", message, took, limit)
    end

    # Concurrent waits take at least as long as the longest chain of them. On a busy machine they
    # take longer, but never as long as one after the other.
    #
    # @param took [Float] seconds
    # @param least [Float] seconds; clocks differ by some milliseconds
    # @param most [Float] seconds
    # @raise [TimingFailure] if it took longer
    def assert_between(least, most, took)
      assert_operator took, :>=, least - 0.005
      assert_in_time took, most
    end
  end

  # @return [Boolean] whether there are failures, and all of them are timing failures
  def self.alone?(failures)
    failures.any? && failures.all? { |failure| failure.is_a?(TimingFailure) }
  end

  # Minitest counts failures by their class.
  def self.plain(failure)
    return failure unless failure.is_a?(TimingFailure)

    Minitest::Assertion.new("twice: #{failure.message}").tap do |plain|
      plain.set_backtrace(failure.backtrace)
    end
  end

  Minitest::Test.prepend(Repeating)
  Minitest::Test.include(Assertions)
end
