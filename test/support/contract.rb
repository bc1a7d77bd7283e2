# frozen_string_literal: true

require "minitest/autorun"
require "io/wait"
require "socket"
require "tempfile"
require "timeout"
require_relative "clock"
require_relative "worlds"
require_relative "strands"
require_relative "ticker"
require_relative "timing"
require_relative "leaks"
require_relative "mistake"
require_relative "warnings"
require_relative "contract_run"
require_relative "streams"
require_relative "subprocess"

# Ruby 3.4 starts a thread at the first timeout, and keeps it.
Timeout.timeout(1) { nil }

# A test class whose bodies run in every world, and must hold in each: in plain threads, and under
# each backend. So a body expects what blocking Ruby does.
#
#   class SleepContract < Contract
#     contract "sleep returns whole seconds" do
#       assert_equal 0, sleep(0.01)
#     end
#   end
class Contract < Minitest::Test
  include Clock

  GAP = 0.020
  # How much may be computed between two ticks, in addition.
  COMPUTING = 0.1
  # A computing thread keeps the lock for 100 ms; two of them may come first.
  GAP_OF_THREADS = 0.250
  # How much slower than usual everything is, under `rake gc`, `rake asan`
  # and `rake lint:types`; then no gap counts.
  PATIENCE = Integer(ENV.fetch("NB_PATIENCE", "1"))

  class << self
    # Defines one test per world, which skips where it cannot run.
    # @param gap [Float, nil] seconds that the ticker may stand still, not counting computation;
    #   nil: no limit
    # @param limit [Float] seconds after which the run counts as hanging
    # @param ticker [Boolean] false: without a ticker, so that only the body allocates
    # @param only [:fibers, :threads, nil]
    # @param ruby [String, nil] a requirement such as ">= 3.2"
    # @param chaos [Boolean] false: the body relies on whose turn it is, which NB_CHAOS changes
    def contract(name, only: nil, ruby: nil, chaos: true, **options, &body)
      why = cannot(ruby, chaos)
      Worlds.all.each do |world|
        next if only == (world.fibers? ? :threads : :fibers)

        define(name, world, why) { conduct(world, **options, &body) }
      end
    end

    # Under every backend, the body's value must be the same as in plain threads.
    def same_as_threads(name, **options, &body)
      running = options.reject { |key, _| key == :ruby }
      why = cannot(options[:ruby])
      Worlds.all.each do |world|
        define(name, world, why) do
          expected = conduct(Worlds::KNOWN.fetch("threads"), **running, &body)
          refute_nil expected, "nothing to compare"
          assert_equal expected, conduct(world, **running, &body) if world.fibers?
        end
      end
    end

    private

    # @return [String, nil] why not
    def cannot(requirement, chaos = true)
      return "chaos changes whose turn it is" if ENV["NB_CHAOS"] && !chaos
      return if requirement.nil? ||
                Gem::Requirement.new(requirement).satisfied_by?(Gem.ruby_version)

      "of Ruby #{requirement}"
    end

    # Another Ruby may have another contract of that name.
    def define(name, world, why, &body)
      test = "test_#{name.gsub(/\W+/, "_")}_#{world.name}"
      there = method_defined?(test, false)
      return if there && why
      raise ArgumentError, "two contracts are called #{name.inspect}" if
        there && !skipping.delete(test)

      skipping << test if why
      define_method(test, &(why ? -> { skip(why) } : body))
    end

    def skipping = @skipping ||= []
  end

  # Runs block beside the body. @return [Strand]
  def strand(&block) = @contract_run.strand(&block)

  # Closes ios when the body has ended. @return them
  def keep(*ios) = @contract_run.keep(*ios)

  # Sets ios to blocking mode, and keeps them.
  def blocking(*ios)
    ios.each { |io| io.nonblock = false }
    keep(*ios)
  end

  # What the body must wait for, on a thread.
  def later
    Thread.new do
      sleep 0.1
      yield
    end
  end

  def scheduler = @contract_run.scheduler
  def world = @contract_run.world
  def fibers? = @contract_run.world.fibers?

  # @return [Integer] a port where nobody listens or can listen: it is occupied until the body ends
  def refusing_port
    socket = keep(Socket.new(:INET, :STREAM))
    socket.bind(Addrinfo.tcp("127.0.0.1", 0))
    socket.local_address.ip_port
  end

  # Runs block beside the body, and returns when it waits.
  def parked(&block)
    strand(&block).tap do |strand|
      sleep 0.001 until strand.parked?
      sleep 0.002
    end
  end

  # The value of a block that polls with a zero timeout. In plain threads, Ruby 3.1 sometimes
  # answers nil for a ready descriptor if a time slice ends at that moment (3 of 90,000 polls beside
  # a computing thread). So the block runs again there, and only there.
  def polled
    tries = fibers? ? 1 : 5
    tries.times { yield.then { |value| return value if value } }
    nil
  end

  # The block takes at least min seconds (timers are never early), and not much more.
  def assert_takes(min, slack: 0.5)
    start = clock
    value = yield
    took = clock - start
    assert_operator took, :>=, min, "came back early"
    assert_in_time took, min + (slack * PATIENCE), "came back late"
    value
  end

  # @return [Array(Class, String), Object] what the block raised, or its value: for comparisons
  def outcome
    yield
  rescue Mistake
    raise
  rescue StandardError => error
    [error.class, error.message]
  end

  private

  # Under chaos (NB_CHAOS) turns of the loop take as long as the seed has them.
  def conduct(world, gap: GAP, limit: 60, ticker: true, &body)
    gap = GAP_OF_THREADS if gap && !world.fibers?
    gap, limit = nil, limit * 4 if ENV["NB_CHAOS"]
    gap, limit = nil, limit * PATIENCE if PATIENCE > 1
    Warnings.take
    @contract_run = ContractRun.new(self, world, limit: limit, ticker: ticker, &body)
    judge(@contract_run.run, gap)
  end

  def judge(result, gap)
    raise result.error if result.error

    assert_empty result.left, "left behind"
    assert_empty Warnings.take, "unexpected warnings"
    return result.value unless gap

    # A busy host stops the whole machine for 100 ms now and then.
    assert_in_time result.stillest.still, gap, "something blocked, #{result.stillest}"
    assert_in_time result.worst.gap, gap + COMPUTING, "the loop stood still, #{result.worst}"
    result.value
  end
end
