# frozen_string_literal: true

require_relative "support"

class InterruptionTest < Minitest::Test
  include SyncSupport

  def interrupt(fiber, message)
    NB::Interruption.deliver(Fiber.scheduler, fiber, NB::Cancelled.new(message))
  end

  # Naps until it was interrupted `count` times, and tells by what.
  def napper(count)
    seen = []
    fiber = Fiber.schedule do
      while seen.size < count
        begin
          sleep(1)
        rescue NB::Cancelled, Timeout::Error => error
          seen << error.message
        end
      end
    end
    [fiber, seen]
  end

  scheduled "several_at_once_all_arrive_in_order" do
    fiber, seen = napper(3)
    %w[one two three].each { |message| interrupt(fiber, message) }
    assert_empty seen, "it did not return at once"
    assert(settled { seen.size == 3 })
    assert_equal %w[one two three], seen
  end

  scheduled "one_from_another_thread" do
    fiber, seen = napper(1)
    scheduler = Fiber.scheduler
    Thread.new { NB::Interruption.deliver(scheduler, fiber, NB::Cancelled.new("thread")) }.join
    assert(settled { seen == ["thread"] })
  end

  scheduled "an_ended_fiber_is_left_alone" do
    fiber = nil
    Fiber.schedule { (fiber = Fiber.current) && sleep(0.001) }
    sleep(0.001) while fiber.alive?
    interrupt(fiber, "too late")
    3.times { sleep(0.001) }
    refute_predicate fiber, :alive?
  end

  # Keeps the whole thread, so that what is due by then is due in one turn of the loop.
  def keep_the_loop(seconds)
    stop = clock + seconds
    nil while clock < stop
  end

  # Ours only: under async an inner `rescue` takes the outer deadline for its own.
  def test_an_outer_deadline_is_not_lost_to_an_inner_one
    in_fiber(:neverblock) { outer_and_inner_deadline }
  end

  def outer_and_inner_deadline
    seen = []
    task = NB::Task.new do
      Timeout.timeout(0.001) do
        begin
          Timeout.timeout(0.002) { sleep }
        rescue Timeout::Error
          seen << :inner
        end
        sleep
      end
    rescue Timeout::Error
      seen << :outer
    end
    keep_the_loop(0.005)
    assert(settled { !task.alive? }, "the outer deadline is lost")
    assert_equal :outer, seen.last
  ensure
    task.cancel.wait
  end

  scheduled "a_deadline_is_not_lost_to_an_interrupt" do
    seen = []
    task = NB::Task.new do
      Timeout.timeout(0.001) do
        begin
          seen << :inside
          sleep
        rescue NB::Cancelled
          seen << :cancelled
        end
        sleep
      end
    rescue Timeout::Error
      seen << :deadline
    end
    sleep(0) until seen.any? # others may run before the block
    keep_the_loop(0.005)
    task.cancel
    assert(settled { !task.alive? }, "the deadline is lost")
    assert_equal :deadline, seen.last
  end
end
