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
    assert_equal 0, slots.drain
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

  # Thread#raise waits while it is masked. What a signal's handler raises does not.
  { "an_interrupt" => ->(thread) { thread.raise(Strike) },
    "a_handler" => ->(_) { raise Strike } }.each do |name, strike|
    define_method("test_#{name}_at_any_line_with_an_empty_slot") do
      strike_everywhere(strike) { |slots, victim| victim.call(slots) }
    end

    define_method("test_#{name}_at_any_line_with_an_idle_thing") do
      strike_everywhere(strike) do |slots, victim|
        slots.release(held_place(slots, :thing))
        victim.call(slots)
      end
    end

    define_method("test_#{name}_at_any_line_when_it_times_out") do
      strike_everywhere(strike) do |slots, victim|
        held = held_place(slots, :thing)
        victim.call(slots)
        slots.release(held)
      end
    end

    define_method("test_#{name}_at_any_line_when_a_thing_is_handed_over") do
      strike_everywhere(strike) do |slots, victim|
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

    define_method("test_#{name}_at_any_line_when_it_hands_over") do
      strike_everywhere(strike, least: 8) do |slots, victim|
        held = held_place(slots, :thing)
        other = Thread.new { held_place_of_another(slots) }
        Thread.pass until slots.stats[:waiting] == 1
        victim.call(slots, held)
        assert_equal :thing, other.value
      end
    end
  end

  def test_a_handler_at_any_line_when_it_closes
    strike_everywhere(->(_) { raise Strike }, least: 3, rest: false) do |slots, victim|
      held_place(slots, :thing)
      other = Thread.new do
        slots.acquire(NB::Slots::Place.new, nil)
      rescue NB::ClosedError
        :closed
      end
      Thread.pass until slots.stats[:waiting] == 1
      victim.call(slots) { slots.close }
      assert_equal :closed, other.value
    end
  end

  private

  def held_place_of_another(slots)
    slots.acquire(place = NB::Slots::Place.new, nil)
    place.thing
  ensure
    slots.release(place)
  end

  # Interrupts the victim at its first line in the file, in a new run at its second, and so on. It
  # runs the block, or gets and releases a place, or releases the one that is given.
  def strike_everywhere(strike, least: 11, rest: true)
    line = 0
    loop do
      slots = NB::Slots.new(1)
      struck = false
      line += 1
      in_thread do
        yield slots, lambda { |it, place = nil, &block|
          block ||= -> { it.acquire(place = NB::Slots::Place.new, 0.004) unless place }
          struck = visit(line, strike, block, -> { it.release(place) if place })
        }
      end
      break unless struck

      assert_at_rest(slots, "after an interrupt at line event #{line}") if rest
    end
    assert_operator line, :>=, least
  end

  # @return [Boolean] whether there was such a line event
  def visit(line, strike, *steps)
    victim = Thread.current
    trace = TracePoint.new(:line) do |event|
      next unless event.path == FILE && Thread.current == victim

      strike.call(victim) if (line -= 1).zero?
    end
    trace.enable
    steps.each do |step|
      step.call
    rescue Strike
      next
    end
    line <= 0
  ensure
    trace.disable
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
