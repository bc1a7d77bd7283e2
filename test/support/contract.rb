# frozen_string_literal: true

require "minitest/autorun"
require "io/wait"
require "socket"
require "tempfile"
require "timeout"
require_relative "worlds"
require_relative "strands"
require_relative "ticker"
require_relative "leaks"
require_relative "warnings"
require_relative "trial"
require_relative "streams"
require_relative "subprocess"
require "neverblock" unless ENV["NB_WORLDS"] == "threads"

# Ruby 3.4 starts a thread for timeouts at the first one and keeps it.
Timeout.timeout(1) { nil }

# A test class whose bodies run in every world and must hold in each: in plain threads, under the
# epoll backend, under the poll backend. So what a body expects is what blocking Ruby does.
#
#   class SleepContract < Contract
#     contract "sleep returns whole seconds" do
#       assert_equal 0, sleep(0.01)
#     end
#   end
class Contract < Minitest::Test
  GAP = 0.020
  # Among threads a computing one keeps the lock 100 ms; two of them may come first.
  GAP_OF_THREADS = 0.250
  TRIES = 8 # until the largest gap is within the limit
  REPEATED = [] # rubocop:disable Style/MutableConstant -- a log, printed at the end

  Minitest.after_run do
    REPEATED.each { |line| warn "repeated: #{line}" }
  end

  class << self
    # Defines one test per world.
    # @param gap [Float, nil] largest gap of the ticker in seconds, nil: not asserted
    # @param limit [Float] seconds after which the run counts as hanging
    # @param only [:fibers, :threads, nil]
    # @param ruby [String, nil] a requirement such as ">= 3.2"
    def contract(name, only: nil, ruby: nil, **options, &body)
      return unless runs_on?(ruby)

      Worlds.all.each do |world|
        next if only == (world.fibers? ? :threads : :fibers)

        define_method(test_name(name, world)) do
          conduct(world, **options, &body)
        end
      end
    end

    # Under every backend the body's value is what it is in plain threads.
    def same_as_threads(name, **options, &body)
      running = options.reject { |key, _| key == :ruby }
      return unless runs_on?(options[:ruby])

      Worlds.all.each do |world|
        define_method(test_name(name, world)) do
          expected = conduct(Worlds::KNOWN.fetch("threads"), **running, &body)
          refute_nil expected, "nothing to compare"
          assert_equal expected, conduct(world, **running, &body) if world.fibers?
        end
      end
    end

    private

    def runs_on?(requirement)
      requirement.nil? || Gem::Requirement.new(requirement).satisfied_by?(Gem.ruby_version)
    end

    def test_name(name, world)
      "test_#{name.gsub(/\W+/, "_")}_#{world.name}".tap do |test|
        raise ArgumentError, "two contracts are called #{name.inspect}" if method_defined?(test,
false)
      end
    end
  end

  # Runs block beside the body. @return [Strand]
  def strand(&block) = @trial.strand(&block)

  # Closes ios when the body has ended. @return them
  def keep(*ios) = @trial.keep(*ios)
  def scheduler = @trial.scheduler
  def world = @trial.world
  def fibers? = @trial.world.fibers?

  # Runs block beside the body and comes back when it waits.
  def parked(&block)
    strand(&block).tap do |strand|
      sleep 0.001 until strand.parked?
      sleep 0.002
    end
  end

  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # The block takes at least min seconds (timers are never early), and not much more.
  def assert_takes(min, slack: 0.5)
    start = clock
    value = yield
    took = clock - start
    assert_operator took, :>=, min, "came back early"
    assert_operator took, :<, min + slack, "came back late"
    value
  end

  # @return [Array(Class, String), Object] what the block raised, or its value: for comparing
  def outcome
    yield
  rescue StandardError => error
    [error.class, error.message]
  end

  private

  def conduct(world, gap: GAP, limit: 10, &body)
    gap = GAP_OF_THREADS if gap && !world.fibers?
    result = try(world, limit, &body)
    (1...TRIES).each do |tries|
      break unless disturbed?(result, gap, world)

      REPEATED << "#{name}: #{result.error || result.gap}"
      sleep(0.2 * tries)
      result = try(world, limit, &body)
    end
    judge(result, gap)
  end

  # A host that is busy elsewhere stops the whole machine for 100 ms now and then. What blocks the
  # loop does so in every try. Plain threads are Ruby's own: only the machine can fail them.
  def disturbed?(result, gap, world)
    return !world.fibers? if result.error

    gap && result.gap.gap > gap
  end

  def try(world, limit, &body)
    Warnings.take
    @trial = Trial.new(self, world, limit: limit, &body)
    @trial.run
  end

  def judge(result, gap)
    raise result.error if result.error

    assert_empty result.left, "left behind"
    assert_empty Warnings.take, "unexpected warnings"
    return result.value unless gap

    assert_operator result.gap.gap, :<=, gap, "the loop stood still: #{result.gap}"
    result.value
  end
end
