# frozen_string_literal: true

require_relative "support"

class GatherTest < Minitest::Test
  include SyncSupport

  scheduled "all_gives_the_values_in_order_and_runs_at_once" do
    begun = []
    values = NB::Gather.all([0.03, 0.01, 0.02].each_with_index.map do |nap, i|
      lambda do
        begun << i
        sleep(nap)
        [i, begun.size]
      end
    end)
    assert_equal [[0, 3], [1, 3], [2, 3]], values
    assert_equal [], NB::Gather.all([])
    assert_equal [3], NB::Gather.all([3.method(:to_i)])
  end

  scheduled "all_raises_the_first_error_when_the_others_are_cancelled" do
    ended = false
    assert_raises(KeyError) do
      NB::Gather.all([lambda do
        sleep
      ensure
        sleep(0.001)
        ended = true
      end, -> { sleep(0.001) && raise(KeyError) }])
    end
    assert ended
  end

  scheduled "an_exit_comes_once" do
    error = assert_raises(SystemExit) do
      NB::Gather.all([-> { sleep(0.001) && exit(3) }, -> { sleep }])
    end
    assert_equal 3, error.status
    assert_equal :went_on, sleep(0.01) && :went_on
  end

  scheduled "first_gives_the_first_value_when_the_others_are_cancelled" do
    ended = []
    slow = lambda do
      sleep
    ensure
      sleep(0.001)
      ended << :slow
    end
    failing = -> { raise KeyError }
    assert_equal :fast, NB::Gather.first([failing, slow, -> { sleep(0.002) && :fast }, slow])
    assert_equal %i[slow slow], ended
    assert_nil NB::Gather.first([slow, -> {}]), "nil is a value"
    3.times { sleep(0.001) }
  end

  scheduled "first_does_not_start_what_it_does_not_need" do
    started = []
    assert_equal 1, NB::Gather.first([-> { started << 1 and 1 }, -> { started << 2 and 2 }])
    assert_equal [1], started
  end

  scheduled "first_raises_the_first_error_if_all_fail", clock: :virtual do
    late = -> { sleep(0.2) && raise(IndexError) }
    early = -> { sleep(0.001) && raise(KeyError) }
    assert_raises(KeyError) { NB::Gather.first([late, early]) }
  end

  scheduled "map_keeps_the_order_and_the_limit" do
    running = 0
    peak = 0
    values = NB::Gather.map(1..20, concurrency: 4) do |i|
      peak = [peak, running += 1].max
      sleep(0.0005 * ((i * 7) % 5))
      running -= 1
      i * i
    end
    assert_equal (1..20).map { |i| i * i }, values
    assert_equal 4, peak
  end

  scheduled "map_of_one_at_a_time_is_map" do
    order = []
    values = NB::Gather.map([3, 1, 2], concurrency: 1) do |i|
      order << i
      sleep(0.001 * i)
      order << i
      i.to_s
    end
    assert_equal %w[3 1 2], values
    assert_equal [3, 3, 1, 1, 2, 2], order
  end

  scheduled "map_pulls_only_when_there_is_room" do
    pulled = 0
    done = 0
    source = Enumerator.new { |items| 20.times { |i| (pulled += 1) && items << i } }
    NB::Gather.map(source, concurrency: 3) do
      assert_operator pulled - done, :<=, 3
      sleep(0.001)
      done += 1
    end
    assert_equal 20, done
  end

  scheduled "map_takes_any_each" do
    assert_equal [[:a, 1], [:b, 2]], NB::Gather.map({ a: 1, b: 2 }, concurrency: 2) { |k, v| [k, v] }
    pairs = Class.new do
      def each
        yield 1, 2
        yield 3, 4
      end
    end
    assert_equal [3, 7], NB::Gather.map(pairs.new, concurrency: 2) { |a, b| a + b }
    assert_equal [], NB::Gather.map([], concurrency: 2) { flunk }
  end

  scheduled "map_stops_at_the_first_error_of_block_or_source" do
    started = []
    assert_raises(KeyError) do
      NB::Gather.map(1..Float::INFINITY, concurrency: 3) do |i|
        started << i
        sleep(0.001)
        raise KeyError if i == 5
      end
    end
    assert_operator started.max, :<=, 8
    source = Enumerator.new { |items| (items << 1) && raise(IndexError, "source") }
    ended = false
    assert_raises(IndexError) do
      NB::Gather.map(source, concurrency: 3) do
        sleep
      ensure
        ended = true
      end
    end
    assert ended
  end

  scheduled "map_of_a_lazy_source_without_end" do
    started = 0
    cancelled = 0
    lazy = NB::Gather.map((1..Float::INFINITY).lazy, concurrency: 3) do |i|
      started += 1
      sleep(0.0005 * (i % 3))
      i * 10
    rescue NB::Cancelled
      cancelled += 1
      raise
    end
    assert_kind_of Enumerator::Lazy, lazy
    assert_equal 0, started
    assert_equal [10, 20, 30, 40], lazy.first(4)
    assert_operator started, :<=, 7
    assert_operator cancelled, :<=, 3
    assert_equal [20, 40], lazy.select { |x| (x % 20).zero? }.first(2)
  end

  scheduled "map_of_a_lazy_source_keeps_the_limit" do
    running = 0
    peak = 0
    lazy = NB::Gather.map((1..20).lazy, concurrency: 4) do |i|
      peak = [peak, running += 1].max
      sleep(0.0005 * ((i * 7) % 5))
      running -= 1
      i
    end
    assert_equal (1..20).to_a, lazy.each { sleep(0.0005) }.to_a.then { lazy.to_a }
    assert_equal 4, peak
  end

  scheduled "map_of_a_lazy_source_that_fails" do
    lazy = NB::Gather.map((1..9).lazy, concurrency: 2) { |i| i == 3 ? raise(KeyError) : i }
    seen = []
    assert_raises(KeyError) { lazy.each { |i| seen << i } }
    assert_operator seen.size, :<=, 2
  end

  scheduled "a_cancel_ends_them_all" do
    ended = 0
    work = lambda do
      sleep
    ensure
      ended += 1
    end
    [-> { NB::Gather.all([work, work]) }, -> { NB::Gather.first([work, work]) },
     -> { NB::Gather.map(1..2, concurrency: 2) { work.call } },
     -> { NB::Gather.map((1..2).lazy, concurrency: 2) { work.call }.to_a }].each do |call|
      ended = 0
      assert_predicate NB::Task.new(&call).cancel.wait, :cancelled?
      assert_equal 2, ended
    end
  end

  scheduled "wrong_arguments_are_refused" do
    error = assert_raises(ArgumentError) { NB::Gather.all([5]) }
    assert_match(/each argument must respond to call.+got: 5/, error.message)
    assert_raises(ArgumentError) { NB::Gather.first([]) }
    assert_match(/1 or more, got: 0/,
                 assert_raises(ArgumentError) { NB::Gather.map([1], concurrency: 0) { 1 } }.message)
    assert_raises(ArgumentError) { NB::Gather.map([1], concurrency: 1) }
    assert_raises(ArgumentError) { NB::Gather.map([1], concurrency: nil) { 1 } }
    error = assert_raises(ArgumentError) { NB.map([1], concurrency: 1, errors: :ignore) { 1 } }
    assert_equal "errors: must be :raise or :return, got: :ignore", error.message
  end

  scheduled "settle_gives_all_values_and_errors" do
    outcomes = NB.settle(-> { sleep(0.002) && 1 }, -> { raise KeyError, "no" }, -> {})
    assert_equal [true, false, true], outcomes.map(&:ok?)
    assert_equal [1, nil, nil], outcomes.map(&:value)
    assert_equal [NilClass, KeyError, NilClass], outcomes.map { |outcome| outcome.error.class }
    assert_equal 1, outcomes.first.value!
    assert_raises(KeyError) { outcomes[1].value! }
    assert_equal "#<NB::Outcome value: 1>", outcomes.first.inspect
    assert_match(/\A#<NB::Outcome error: #<KeyError: "?no"?>>\z/, outcomes[1].inspect)
    assert_equal [], NB.settle
  end

  scheduled "settle_cancels_what_is_late", clock: :virtual do
    ended = false
    slow = lambda do
      sleep
    ensure
      sleep(0.001)
      ended = true
    end
    report = captured_stderr do
      one, two, three = NB.settle(-> { 1 }, slow, -> { raise IOError }, timeout: 0.01)
      assert_equal [1, IOError], [one.value, three.error.class]
      assert_kind_of Timeout::Error, two.error
      assert_equal "cancelled: no value within 0.01 s", two.error.message
      case two
      in { ok: false, value: nil, error: Timeout::Error } then pass
      end
    end
    assert ended
    assert_empty report
    assert_kind_of NB::TaskCancelledError, NB.settle(-> { raise NB::Cancelled, "own" }).first.error
  end

  scheduled "settle_within_a_timeout_or_a_cancel" do
    assert_raises(Timeout::Error) { NB.timeout(0.005) { NB.settle(-> { sleep }, timeout: 60) } }
    task = NB::Task.new { NB.settle(-> { sleep }, -> { 1 }) }
    assert_predicate task.cancel.wait, :cancelled?
    assert_raises(SystemExit) { NB.settle(-> { exit }, -> { sleep }) }
  end

  # Ruby 3.1 runs it in a blocking fiber.
  scheduled "as_completed_by_next", others: false, clock: :virtual do
    ticks = 0
    ticker = NB::Task.new { loop { sleep(0.1) && ticks += 1 } }
    values = NB.as_completed(-> { sleep(1) && :late }, -> { :soon })
    assert_equal %i[soon late late], [values.next, values.peek, values.next]
    assert_raises(StopIteration) { values.next }
    assert_operator ticks, :>=, 9
    values = NB.as_completed(-> { sleep(1) && raise(KeyError) }, -> { :soon })
    assert_equal :soon, values.next
    assert_raises(KeyError) { values.next }
    waiting = NB::Task.new { NB.as_completed(-> { sleep }).next }
    sleep(0.001)
    assert_predicate waiting.cancel.wait, :cancelled?
    ticker.cancel
  end

  scheduled "as_completed_gives_values_as_they_come", clock: :virtual do
    sleepers = [0.3, 0.005, 0.15].map { |nap| -> { sleep(nap).then { nap } } }
    assert_equal [0.005, 0.15, 0.3], NB.as_completed(*sleepers).to_a
    assert_equal 3, NB.as_completed(*sleepers).size
    assert_equal [], NB.as_completed.to_a
  end

  scheduled "leaving_as_completed_cancels_the_others" do
    ended = []
    slow = lambda do
      sleep
    ensure
      ended << :slow
    end
    assert_equal 1, NB.as_completed(slow, -> { sleep(0.001) && 1 }, slow).first
    assert_equal %i[slow slow], ended
    got = []
    assert_raises(KeyError) do
      values = NB.as_completed(slow, -> { 1 }, -> { sleep(0.003) && raise(KeyError) })
      values.each { |value| got << value }
    end
    assert_equal [[1], 3], [got, ended.size]
  end

  scheduled "first_gives_so_many", clock: :virtual do
    sleepers = [0.4, 0.001, 0.2].map { |nap| -> { sleep(nap).then { nap } } }
    assert_equal [0.001, 0.2], NB.first(*sleepers, count: 2)
    assert_equal [1, 2], NB.first(-> { 1 }, -> { 2 }, -> { flunk }, count: 2)
    assert_equal [0.001], NB.first(*sleepers, count: 1)
    assert_raises(KeyError) { NB.first(-> { raise KeyError }, -> { sleep }, count: 2) }
    error = assert_raises(ArgumentError) { NB.first(-> { 1 }, count: 2) }
    assert_equal "count: must be at most the number of callables (1), got: 2", error.message
    assert_raises(ArgumentError) { NB.first(-> { 1 }, count: 0) }
  end

  scheduled "map_left_by_break" do
    assert_equal :left, NB.map([1], concurrency: 1) { break :left }
    assert_equal :left, NB.map([1], concurrency: 1, errors: :return) { break :left }
  end

  scheduled "break_of_a_task_in_map" do
    broken = -> { Thread.new { Thread.current.report_on_exception = false or break :left }.join }
    assert_raises(LocalJumpError) { NB.map([1], concurrency: 1) { broken.call } }
    errors = NB.map([1], concurrency: 1, errors: :return) { broken.call }
    assert_equal [LocalJumpError], errors.map(&:class)
  end

  scheduled "map_returns_errors" do
    values = NB.map([1, 0, 2], concurrency: 2, errors: :return) { |i| sleep(0.001) && (2 / i) }
    assert_equal [2, ZeroDivisionError, 1], [values[0], values[1].class, values[2]]
    values = NB.map([1, 0].lazy, concurrency: 2, errors: :return) { |i| 2 / i }.to_a
    assert_equal [2, ZeroDivisionError], [values[0], values[1].class]
    assert_raises(SystemExit) { NB.map([1], concurrency: 1, errors: :return) { exit } }
  end
end
