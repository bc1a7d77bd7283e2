# frozen_string_literal: true

require_relative "support"

class SlotsTest < Minitest::Test
  include SyncSupport

  FILE = $LOADED_FEATURES.grep(%r{neverblock/sync/slots\.rb\z}).first
  Strike = Class.new(StandardError)

  def held_place(slots, thing)
    place = NB::Slots::Place.new
    slots.acquire(place, nil)
    place.thing = thing
    place
  end

  def test_a_thing_in_use_while_the_slots_were_drained_is_not_handed_out_again
    slots = NB::Slots.new(1)
    old = held_place(slots, :old)
    assert_empty slots.drain
    assert slots.spoiled?(old)
    slots.release(old)
    slots.acquire(new = NB::Slots::Place.new, 0)
    assert_nil new.thing
  end

  def test_release_is_right_in_any_state_and_twice
    slots = NB::Slots.new(1)
    slots.release(NB::Slots::Place.new)
    held = held_place(slots, nil)
    2.times { slots.release(held) }
    assert_equal 0, slots.stats[:in_use]
    held_place(slots, nil)
    refute slots.acquire(late = NB::Slots::Place.new, 0.001)
    assert_predicate late, :waiting?
    2.times { slots.release(late) }
    assert_equal({ in_use: 1, waiting: 0 }, slots.stats.slice(:in_use, :waiting))
  end

  def test_an_interrupt_at_any_line_with_an_empty_slot
    strike_everywhere { |slots, victim| victim.call(slots) }
  end

  def test_an_interrupt_at_any_line_with_an_idle_thing
    strike_everywhere do |slots, victim|
      slots.release(held_place(slots, :thing))
      victim.call(slots)
    end
  end

  def test_an_interrupt_at_any_line_when_it_times_out
    strike_everywhere do |slots, victim|
      held = held_place(slots, :thing)
      victim.call(slots)
      slots.release(held)
    end
  end

  def test_an_interrupt_at_any_line_when_a_thing_is_handed_over
    strike_everywhere do |slots, victim|
      held = held_place(slots, :thing)
      over = false
      other = Thread.new do
        Thread.pass until over || slots.stats[:waiting] == 1
        slots.release(held)
      end
      victim.call(slots)
      over = true
      other.join
    end
  end

  private

  # Interrupts the victim at its first line in the file, in a new run at its second, and so on.
  def strike_everywhere
    line = 0
    loop do
      slots = NB::Slots.new(1)
      struck = false
      in_thread { yield slots, ->(it) { struck = visit(it, line += 1) } }
      break unless struck

      assert_at_rest(slots, "after an interrupt at line event #{line}")
    end
    assert_operator line, :>, 10
  end

  # @return [Boolean] whether there was such a line event
  def visit(slots, line)
    place = NB::Slots::Place.new
    victim = Thread.current
    trace = TracePoint.new(:line) do |event|
      next unless event.path == FILE && Thread.current == victim

      # Through the queue of interrupts, so that masks count.
      victim.raise(Strike) if (line -= 1).zero?
    end
    trace.enable
    slots.acquire(place, 0.004)
  rescue Strike
    nil
  ensure
    begin
      slots.release(place)
    rescue Strike
      nil
    ensure
      trace.disable
    end
    return line <= 0 # rubocop:disable Lint/EnsureReturn -- nothing else can come out of here
  end

  def assert_at_rest(slots, message)
    stats = slots.stats
    assert_equal [0, 0], stats.values_at(:in_use, :waiting), message
    assert_operator stats[:idle], :<=, 1, message
    place = NB::Slots::Place.new
    assert slots.acquire(place, 0), message
    refute slots.acquire(NB::Slots::Place.new, 0), message
  end
end
