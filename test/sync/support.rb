# frozen_string_literal: true

$LOAD_PATH.unshift(File.expand_path("../../lib", __dir__))
require "minitest/autorun"
require "stringio"
require "timeout"
require_relative "../support/leaks"
require_relative "../support/patience"
begin
  require "neverblock"
rescue LoadError
  nil # the room works without the loop, as these tests show
end
%w[task group gather fiber_pool connection_pool process_pool].each do |file|
  require "neverblock/sync/#{file}"
end
begin
  require "async" if RUBY_VERSION >= "3.2" # its newest for 3.1 calls IO#timeout, which came later
rescue LoadError
  nil # then one scheduler less to try
end

# What the tests of the room `sync` have in common: each runs under every scheduler there is, and
# leaves no thread, no child and no file descriptor.
module SyncSupport
  include Patience

  # Each runs a block in a fiber of a new scheduler, on this thread, until all fibers have ended.
  SCHEDULERS = {
    neverblock: (if defined?(NB::Scheduler)
                   lambda do |block, clock = :real|
                     SyncSupport.set(NB::Scheduler.new(clock: clock), block)
                   end
                 end),
    async: (->(block, _ = nil) { Async { block.call } } if defined?(Async::Reactor))
  }.compact.freeze

  def self.set(scheduler, block)
    Fiber.set_scheduler(scheduler)
    Fiber.schedule(&block)
  ensure
    Fiber.set_scheduler(nil)
  end

  # How tests are defined.
  module Definitions
    # One test for each scheduler; the block runs in a fiber of it.
    #
    # @param others [Boolean] false: not under other schedulers than ours, since they give a fiber
    #   its turn, or hand it an exception, at other moments
    # @param clock [Symbol] of ours; :virtual for a test that would sleep long
    def scheduled(name, others: true, clock: :real, &block)
      (others ? SCHEDULERS.keys : SCHEDULERS.keys & %i[neverblock]).each do |scheduler|
        define_method("test_#{name}_on_#{scheduler}") do
          in_fiber(scheduler, clock: clock) { instance_exec(&block) }
        end
      end
    end

    # As `scheduled`, and once more in a plain thread.
    def everywhere(name, **how, &block)
      scheduled(name, **how, &block)
      define_method("test_#{name}_on_threads") { in_thread { instance_exec(&block) } }
    end
  end

  class << self
    # @return [Boolean, nil]
    attr_accessor :warm
  end

  def self.included(test)
    test.extend(Definitions)
  end

  def setup
    super
    warm_up
    @threads_before = Leaks.threads
    @fds_before = Leaks.fds
    @children_before = Leaks.children
  end

  def teardown
    settled { (Leaks.threads - @threads_before).empty? && Leaks.fds.size <= @fds_before.size }
    assert_empty Leaks.threads - @threads_before, "threads left"
    assert_operator Leaks.fds.size, :<=, @fds_before.size,
      "fds left: #{Leaks.fds.to_a - @fds_before.to_a}"
    assert_empty Leaks.children - @children_before, "children left"
    super
  end

  # What Ruby and a scheduler open once and keep is no leak.
  def warm_up
    return if SyncSupport.warm

    SyncSupport.warm = true
    SCHEDULERS.each_key { |scheduler| in_fiber(scheduler) { Process.wait(spawn("true")) } }
    in_thread { Timeout.timeout(5) { sleep(0) } }
  end

  # The block's value and exception come out of here. What takes longer than the limit has failed.
  def in_fiber(scheduler, limit: 60, clock: :real, &block)
    run = SCHEDULERS.fetch(scheduler)
    in_loop(->(fiber) { run.call(fiber, clock) }, limit: limit, &block)
  end

  # @param runner [#call] as in SCHEDULERS
  def in_loop(runner, limit: 60)
    in_thread(limit: limit) do
      outcome = nil
      fiber = lambda do
        outcome = [:value, yield]
      rescue Exception => error # rubocop:disable Lint/RescueException -- raised again below
        outcome = [:error, error]
      end
      runner.call(fiber)
      raise outcome.last if outcome.first == :error

      outcome.last
    end
  end

  def in_thread(limit: 60)
    thread = Thread.new do
      Thread.current.report_on_exception = false
      yield
    end
    return thread.value if thread.join(limit)

    where = thread.backtrace&.first(15)&.join("\n")
    thread.kill
    thread.join(2)
    flunk "still running after #{limit} s:\n#{where}"
  end

  # Runs `count` blocks at once and waits for all: fibers where there is a scheduler, else threads.
  def concurrently(count)
    if Fiber.current_scheduler
      NB::Group.run { |group| count.times { |index| group.async { yield index } } }
    else
      Array.new(count) { |index| Thread.new { yield index } }.each(&:join)
    end
  end

  # A condition that another fiber, thread or process brings about: as {#eventually}, and tells.
  # @return [Object] what the block answers last
  def settled(limit = 20)
    deadline = clock + limit
    sleep(0.001) until (done = yield) || clock > deadline
    done
  end

  def captured_stderr
    before = $stderr
    $stderr = StringIO.new
    yield
    $stderr.string
  ensure
    $stderr = before
  end

  # Raises at the step that the block comes to in this fiber: :line is harsher than any interrupt,
  # :return is where Ruby itself lets one strike.
  #
  # @param event [Symbol] of TracePoint
  # @param path [String] what the file of a step begins with
  # @return [Boolean] whether the block ended before
  def strike(event, step, path)
    fiber = Fiber.current
    point = TracePoint.new(event) do |at|
      next unless at.path.start_with?(path) && Fiber.current.equal?(fiber) && (step -= 1).zero?

      Thread.current.raise(KeyError, "struck")
    end
    point.enable { yield }
    true
  rescue KeyError
    false
  ensure
    point.disable
  end

  def elapsed
    start = clock
    yield
    clock - start
  end
end
