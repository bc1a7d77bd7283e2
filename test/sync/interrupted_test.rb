# frozen_string_literal: true

require_relative "support"
require_relative "../support/interrupted_lines"
require_relative "../support/interrupted_waits"

# What lib/neverblock/sync offers, interrupted at each of its points in turn: a scenario runs once
# for each, until there is no further one. test/chaos/cutting.rb does so at random, under faults.
class InterruptedTest < Minitest::Test
  include SyncSupport

  # Where a second interrupt comes, after the first: so many points later.
  LATER = [1, 2, 3, 5, 8, 13].freeze
  # They retry after any error but a cancel, and a timeout's own class is any error.
  RETRIES = %i[retry_twice retry_in_time].freeze
  # Their own timeouts would expire as well.
  TIMEOUTS = %i[retry_in_time nested nest deadline inherited].freeze
  # A signal strikes in a shield that computes.
  SHIELDS = %i[shields].freeze
  SLOW = InterruptedRun::SLOW
  TWICE = %i[limiter keyed pool pool_in_time closing group map first fiber_pool nest].freeze

  SyncScenarios::KINDS.each do |kind|
    define_method("test_#{kind}_at_each_wait") do
      in_thread do
        ways = InterruptedWaits::RAISES.keys
        ways -= %i[late] if RETRIES.include?(kind)
        ways -= %i[expired] if TIMEOUTS.include?(kind)
        ways = %i[parked] if SLOW.include?(kind)
        ways.each do |how|
          backend = how == :cancel ? NB::Native.backends.last : NB::Native.backends.first
          at_each_point(kind) { |at| InterruptedWaits.new(kind, [[at, how]]).run(backend.to_sym) }
        end
      end
    end

    next if SLOW.include?(kind) || kind == :http

    define_method("test_#{kind}_at_each_line_in_a_loop") do
      skip("a signal strikes a shield that computes") if SHIELDS.include?(kind)
      in_thread do
        at_each_point(kind) do |at|
          InterruptedLines.new(kind, [[at, :handler]]).run_in_loop(:epoll)
        end
      end
    end
  end

  # Of retry_in_time the own timeout, which is over after 2 ms, would take the interrupt's place.
  (SyncScenarios::ANYWHERE - %i[http retry_in_time]).each do |kind|
    define_method("test_#{kind}_at_each_line_in_threads") do
      in_thread do
        ways = SHIELDS.include?(kind) || SLOW.include?(kind) ? %i[raise] : %i[raise handler]
        ways.each do |how|
          at_each_point(kind) { |at| InterruptedLines.new(kind, [[at, how]]).run_in_threads }
        end
      end
    end
  end

  # The second while the victim cleans up after the first.
  TWICE.each do |kind|
    define_method("test_#{kind}_twice_at_waits") do
      in_thread do
        at_each_pair(kind) do |at, later|
          InterruptedWaits.new(kind, [[at, :cancel], [later, :late]]).run(:epoll)
        end
      end
    end

    define_method("test_#{kind}_twice_at_lines") do
      in_thread do
        at_each_pair(kind) do |at, later|
          run = InterruptedLines.new(kind, [[at, :handler], [later, :handler]])
          SyncScenarios::ANYWHERE.include?(kind) ? run.run_in_threads : run.run_in_loop(:epoll)
        end
      end
    end
  end

  private

  # A fork takes so long that there it is every fifth point, others in each run.
  def at_each_point(kind)
    first, step = SLOW.include?(kind) ? [rand(1..5), 5] : [1, 1]
    capture_io do # errors of tasks that nobody waits for
      points = (first..).step(step).take_while { |at| judged(kind, yield(at)).struck.any? }
      assert_operator points.size, :>=, 2, "#{kind}: too little was tried"
    end
  end

  def at_each_pair(kind)
    struck = []
    capture_io do
      (1..).step(3).take_while do |at|
        runs = LATER.map { |later| judged(kind, yield(at, at + later)) }
        struck.concat(runs.map { |run| run.struck.size })
        runs.any? { |run| run.struck.any? }
      end
    end
    assert_operator struck.count(2), :>=, 2, "#{kind}: too little was tried"
  end

  def judged(kind, run)
    assert_empty run.wrong, "#{kind}, struck in #{run.where}"
    run
  end
end
