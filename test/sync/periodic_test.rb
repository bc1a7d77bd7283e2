# frozen_string_literal: true

require_relative "support"
require_relative "../support/timing"

# NB.every and tasks in the background.
class PeriodicTest < Minitest::Test
  include SyncSupport

  def test_a_background_task_ends_with_the_others
    steps = []
    in_thread do
      NB.run do
        task = NB.async(background: true) do
          sleep
        ensure
          steps << :ensured
        end
        NB.async { sleep(0.01) && steps << :other }
        assert_predicate task, :alive?
      end
    end
    assert_equal %i[other ensured], steps
  end

  def test_what_a_background_task_waits_for_in_its_ensure_ends
    steps = []
    in_thread do
      NB.run do
        NB.async(background: true) do
          sleep
        ensure
          2.times { sleep 0.002 }
          steps << :ensured
        end
        NB.every(0.001) do
          sleep
        ensure
          sleep 0.002
          steps << :every
        end
        sleep 0.01
      end
    end
    assert_equal %i[ensured every], steps.sort
  end

  # What it starts is no background.
  def test_what_a_background_task_starts_keeps_the_loop_going
    ended = false
    in_thread do
      NB.run do
        NB.async(background: true) { NB.async { sleep(0.02) && ended = true } && sleep }
      end
    end
    assert ended
  end

  def test_waiting_for_a_background_task_keeps_the_loop_going
    value = in_thread { NB.run { NB.async(background: true) { sleep(0.01) && 42 }.value } }
    assert_equal 42, value
  end

  def test_runs_at_multiples_of_the_interval
    times = virtually do |start|
      times = []
      NB.every(60) do
        times << (clock - start)
        sleep(48)
        break times if times.size == 10
      end.value
    end
    assert_seconds (1..10).map { |run| run * 60 }, times
  end

  def test_missed_runs_are_skipped_or_follow
    { skip: [60, 730, 780, 840], queue: [60, 730, 730, 730] }.each do |missed, expected|
      times = virtually do |start|
        times = []
        NB.every(60, missed: missed) do
          sleep(610) if times.size == 1
          times << (clock - start)
          break times if times.size == 4
        end.value
      end
      assert_seconds expected, times
    end
  end

  def test_jitter_makes_runs_later
    offsets = virtually do |start|
      offsets = []
      task = NB.every(60, jitter: 60) { offsets << ((clock - start) % 60) }
      sleep(3600)
      task.cancel.wait
      offsets
    end
    assert_operator offsets.max - offsets.min, :>, 6
  end

  def test_a_break_of_a_thread_ends_no_runs
    runs = 0
    report = captured_stderr do
      in_thread do
        NB.run do
          NB.every(0.001) do
            break if (runs += 1) == 3

            Thread.new { Thread.current.report_on_exception = false or break }.join
          end.wait
        end
      end
    end
    assert_equal 3, runs
    assert_match(/a run raised.*LocalJumpError/m, report)
  end

  def test_errors_are_reported_and_survived
    runs = 0
    report = captured_stderr do
      in_thread do
        NB.run do
          NB.every(0.001) do
            runs += 1
            raise KeyError, "run #{runs}" if runs < 3

            break
          end.wait
        end
      end
    end
    assert_equal 3, runs
    assert_match(/NB\.every\(0\.001\) at .*periodic_test\.rb:\d+: a run raised/, report)
    assert_match(/run 1.*run 2/m, report)
  end

  def test_does_not_keep_the_loop_going
    runs = 0
    time = elapsed { in_thread { NB.run { NB.every(0.005) { runs += 1 } && sleep(0.018) } } }
    assert_operator runs, :>=, 1
    assert_operator time, :<, 5
  end

  def test_names
    in_thread do
      NB.run do
        task = NB.every(60, name: "flush") { 1 }
        assert_match(/\A#<NB::Task flush .*periodic_test\.rb:\d+ running>\z/, task.inspect)
        assert_includes NB.dump.to_s, "is #<NB::Task flush "
        assert_equal "one", NB.async(name: "one") { 1 }.name
        assert_equal "two", NB.group { |group| group.async(name: "two") { 1 } }.name
        assert_match(/flush/, NB.async(name: "flush") { NB.dump.to_s }.value)
      end
    end
  end

  def test_wrong_arguments
    { [0] => "the interval", [nil] => "the interval", ["1"] => "the interval",
      [1, { jitter: 2 }] => "jitter:", [1, { jitter: nil }] => "jitter:",
      [1, { missed: :both }] => "missed:" }.each do |(interval, options), what|
      error = assert_raises(ArgumentError) { NB.every(interval, **(options || {})) { flunk } }
      assert_match(/\ANB\.every: #{what} must be /, error.message)
    end
    assert_equal "NB.every needs a block",
      assert_raises(ArgumentError) { NB.every(1) }.message
    assert_raises(NB::NoSchedulerError) { NB.every(1) { flunk } }
    assert_raises(NB::NoSchedulerError) { NB.async(background: true) { flunk } }
  end

  private

  # The value of the block, which is given the time, in a loop whose time is virtual.
  def virtually = in_thread { NB.run(clock: :virtual) { yield clock } }

  # Looks at the clock take nanoseconds.
  def assert_seconds(expected, times)
    assert_equal expected, times.map { |time| time.round(3) }
  end
end
