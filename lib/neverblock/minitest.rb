# frozen_string_literal: true

require "minitest"
require_relative "testing/test_loop"

module NB
  # Runs each test of a class in a loop of its own, with setup and teardown. A test fails if a task
  # failed and nobody waited for it, or if a task is left when the test ends. Tests that run in
  # parallel each have a loop on their thread; in virtual time, those that wait for I/O take real
  # time, because another thread could write to it.
  #
  # @example
  #   require "neverblock/minitest"
  #
  #   class MailerTest < Minitest::Test
  #     include NB::Minitest
  #     virtual_time! # sleeps and timeouts take no time
  #
  #     def test_tries_for_an_hour
  #       assert_raises(Timeout::Error) { NB.timeout(3600) { Mailer.new(down).deliver } }
  #     end
  #   end
  # @see NB.run NB.run, `clock:`, about virtual time
  module Minitest
    # Class methods of a class that includes {Minitest}.
    module ClassMethods
      # Gives the tests of this class and its descendants a virtual clock.
      #
      # @return [void]
      # @scheduling never waits
      def virtual_time! = define_singleton_method(:loop_clock) { :virtual }

      # @return [Symbol] :real or :virtual
      # @api private
      def loop_clock = :real
    end

    # Extends the including class by {ClassMethods}. Minitest::Test defines `run` itself and takes
    # precedence over included modules, so there the module is prepended.
    #
    # @param test [Class]
    # @return [void]
    # @api private
    def self.included(test)
      super
      test.extend(ClassMethods)
      test.prepend(self) if test.equal?(::Minitest::Test)
    end

    # Runs the test; minitest calls it.
    #
    # @return [Minitest::Result]
    # @scheduling always waits
    def run
      start = ::Minitest.clock_time
      result = nil
      problems = TestLoop.run(clock: clock) do
        result = super
        result.failures.empty?
      end
      result.time = ::Minitest.clock_time - start # inside it may have been virtual
      result.failures.concat(problems.map { |problem| assertion(problem) })
      result
    end

    private

    # A module that includes this one can be included without its class methods.
    def clock = self.class.respond_to?(:loop_clock) ? self.class.loop_clock : :real

    def assertion(problem)
      ::Minitest::Assertion.new(problem.message).tap { |one| one.set_backtrace(problem.backtrace) }
    end
  end
end
