# frozen_string_literal: true

require_relative "support"

# NB.retry.
class RetryingTest < Minitest::Test
  include SyncSupport

  everywhere "until_it_succeeds" do
    attempts = []
    value = NB.retry(times: 5, wait: 0.001) do |attempt|
      attempts << attempt
      attempt == 3 ? :value : raise(KeyError)
    end
    assert_equal [:value, [1, 2, 3]], [value, attempts]
    assert_equal 7, (NB.retry { break 7 })
  end

  everywhere "at_most_so_often_then_the_last_error" do
    errors = []
    error = assert_raises(KeyError) do
      NB.retry(times: 3, wait: 0) { |attempt| raise(errors.push(KeyError.new("#{attempt}")).last) }
    end
    assert_equal 3, errors.size
    assert_same errors.last, error
    assert_nil error.cause, "each run is a new one"
  end

  everywhere "only_after_the_errors_that_are_named" do
    runs = 0
    assert_raises(IOError) do
      NB.retry(times: 5, on: [KeyError, Errno::EPIPE], wait: 0) do
        raise((runs += 1) == 1 ? KeyError : IOError)
      end
    end
    assert_equal 2, runs
    assert_raises(NotImplementedError) { NB.retry(wait: 0) { raise NotImplementedError } }
  end

  everywhere "pauses_grow_up_to_the_limit" do
    times = []
    assert_raises(KeyError) do
      NB.retry(times: 5, wait: 0.01, max_wait: 0.02) { times << clock and raise KeyError }
    end
    pauses = times.each_cons(2).map { |one, two| two - one }
    [0.005, 0.01, 0.01, 0.01].zip(pauses) do |least, pause|
      assert_operator pause, :>=, least - 0.0005
    end
  end

  everywhere "pauses_as_asked_for" do
    asked = []
    assert_raises(KeyError) do
      NB.retry(times: 3, wait: lambda { |attempt, error|
        asked << [attempt, error.class]
        0.001
      }) { raise KeyError }
    end
    assert_equal [[1, KeyError], [2, KeyError]], asked
  end

  scheduled "a_cancel_is_final" do
    runs = 0
    body = lambda do
      runs += 1
      begin
        sleep
      rescue NB::Cancelled
        raise KeyError, "wrapped by a library"
      end
    end
    task = NB::Task.new { NB.retry(times: 5, wait: 0, on: Exception) { body.call } }
    task.report_on_exception = false
    task.cancel
    assert_raises(KeyError) { task.wait }
    task = NB::Task.new { NB.retry(times: 5, wait: 0, on: Exception) { (runs += 1) && sleep } }
    assert_predicate task.cancel.wait, :cancelled?
    assert_equal 2, runs
  end

  everywhere "a_pause_ends_before_the_deadline_or_is_not_begun" do
    runs = 0
    time = elapsed do
      assert_raises(KeyError) do
        NB.timeout(5) { NB.retry(times: 5, wait: 20) { (runs += 1) && raise(KeyError) } }
      end
    end
    assert_equal 1, runs
    assert_operator time, :<, 4
  end

  everywhere "an_outer_timeout_is_final" do
    runs = 0
    assert_raises(Timeout::Error) do
      NB.timeout(0.01) { NB.retry(times: 5, on: Timeout::Error, wait: 0) { (runs += 1) && sleep } }
    end
    assert_equal 1, runs
    assert_raises(Timeout::Error) do
      NB.retry(times: 2, on: Timeout::Error, wait: 0) { NB.timeout(0.003) { (runs += 1) && sleep } }
    end
    assert_equal 3, runs
  end

  # Elsewhere `rescue Exception` does not see it, or it is known by the class that Ruby gives it.
  scheduled "an_outer_timeout_is_final_for_exception_too" do
    runs = 0
    assert_raises(Timeout::Error) do
      Timeout.timeout(0.01) { NB.retry(times: 2, on: Exception, wait: 0) { (runs += 1) && sleep } }
    end
    assert_equal 1, runs
  end

  # 2 to the power of 1,024 is no Float any more.
  def test_more_runs_than_pauses_can_double
    [0, 0.0].each do |wait|
      runs = NB.retry(times: 2_000, wait: wait) { |run| run < 1_100 ? raise(IOError) : run }
      assert_equal 1_100, runs
    end
  end

  def test_success_at_once_makes_nothing
    NB.retry { 1 }
    before = GC.stat(:total_allocated_objects)
    100.times { NB.retry { 1 } }
    assert_operator GC.stat(:total_allocated_objects) - before, :<, 50
  end

  def test_wrong_arguments
    { { times: 0 } => "times: must be a whole number of 1 or more, got: 0",
      { on: "x" } => 'on: must be a class of exceptions, or several, got: "x"',
      { wait: -1 } => "wait: must be seconds, 0 or more, got: -1",
      { wait: nil } => "wait: must be seconds, 0 or more, got: nil",
      { wait: Float::INFINITY } => "wait: must be seconds, 0 or more, got: Infinity",
      { max_wait: "1" } => 'max_wait: must be seconds, 0 or more, or nil for no limit, got: "1"' }
      .each do |options, message|
        assert_equal message, assert_raises(ArgumentError) { NB.retry(**options) { flunk } }.message
      end
    assert_equal "NB.retry needs a block", assert_raises(ArgumentError) { NB.retry }.message
    error = assert_raises(ArgumentError) { NB.retry(wait: -> { -1 }) { raise KeyError } }
    assert_match(/given 2, expected 0/, error.message)
    error = assert_raises(ArgumentError) { NB.retry(wait: ->(*) { -1 }) { raise KeyError } }
    assert_equal "wait: must be seconds, 0 or more, got: -1", error.message
  end
end
