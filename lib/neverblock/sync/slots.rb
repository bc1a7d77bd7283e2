# frozen_string_literal: true

require_relative "../errors"
require_relative "wait_count"

module NB
  # A fixed number of slots, each for one thing that is costly to make, handed out in order of
  # arrival. This is the waiting half of {ConnectionPool}; it knows nothing of connections.
  #
  # Whoever wants a slot brings a {Place}, which says at any moment what it has. So an exception may
  # strike anywhere (Thread#raise, a cancel, a timeout): {#release} reads the place and gives back
  # exactly that, and one waiter gets it. Waiters are fibers or threads, under any scheduler.
  #
  # Nothing waits while interrupts are masked, except in {#lock}: the mask belongs to the thread,
  # and would hold back the interrupts of all its other fibers.
  #
  # Everything changes under the lock, except @held, which {#hold} changes without it. An interrupt,
  # or another thread, may come in whenever a call returns. So nothing there depends on a return
  # value: each step first takes, then looks whether that was too much.
  #
  # No mask holds back what a signal handler raises on the main thread. So nothing is counted: each
  # change can be made twice, and {#release} repeats all changes that may have been left half made.
  # A thing moves between an instance variable and a Place's attribute on one line, where no call
  # returns in between.
  #
  # @api private
  class Slots
    # {#hold} returns this when there is no free slot.
    NONE = Object.new.freeze

    # What one caller has. Only Slots changes it, under the lock; the holder may change `thing` and
    # `spoiled`.
    class Place
      # @return [Symbol] :none, :waiting, :held (a slot, perhaps an empty one) or :refused
      attr_accessor :state
      # @return [Object, nil] what is in the slot; the holder of an empty slot makes one
      attr_accessor :thing
      # @return [Boolean, nil] whether the thing must not be used again
      attr_accessor :spoiled
      # @return [Integer, nil] the number of {Slots#drain} calls before it got its slot
      attr_accessor :generation
      # @return [Thread::ConditionVariable, nil] for this waiter alone: nobody wakes in vain
      attr_accessor :wakeup
      # @return [Fiber, nil] the fiber that had to wait
      attr_accessor :fiber
      # @return [Float, nil] when that wait began; when it ended, or when the holder was last seen
      attr_accessor :asked, :since

      # Starts with nothing.
      def initialize = @state = :none

      # Ends the wait without a slot.
      def refuse
        @state = :refused
        wake
      end

      # Must be called after each change of its state.
      def wake = @wakeup&.signal

      # @return [Boolean] whether there is nothing to give back
      def free? = @state == :none

      # @return [Boolean]
      def held? = @state == :held

      # @return [Boolean]
      def waiting? = @state == :waiting
    end

    # @param size [Integer] how many slots, 1 or more
    # @param waits [WaitCount] counts the waits for a slot
    def initialize(size, waits = WaitCount.new)
      @size = size
      @lock = Thread::Mutex.new
      # Idle things, as [thing, rest] or nil. The last one in is the first one out, so the rest may
      # go cold.
      @idle = nil
      @waiting = {}.compare_by_identity # places in FIFO order; a Hash for its O(1) shift and delete
      @held = {}.compare_by_identity # a key for each slot in use: its place, or that of {#hold}
      @waits = waits
      @generation = 0
      @closed = false
    end

    # Gets a slot for the place, in turn. The caller must call {#release} afterwards, whatever
    # happens.
    #
    # @param place [Place] a new one
    # @param timeout [Float, nil] seconds; nil: no limit; 0: only if a slot is free now
    # @return [Boolean] whether the place has a slot; false after the timeout
    # @raise [NB::ClosedError] once these slots are closed
    # @scheduling may wait
    # @thread any
    def acquire(place, timeout)
      @lock.lock
      Thread.handle_interrupt(UNINTERRUPTED) { grant_or_enqueue(place) }
      wait_for_turn(place, timeout) if place.waiting?
      raise ClosedError, "the pool is closed" if place.state == :refused

      place.held?
    ensure
      # On Ruby 3.1, an interrupted ConditionVariable#wait returns without the lock.
      @lock.unlock if @lock.owned?
    end

    # Gives back whatever the place has: a slot, a turn in the queue, or nothing.
    #
    # @param place [Place] that was passed to {#acquire}, even if that raised
    # @return [void]
    # @scheduling waits only for the lock
    # @thread any
    def release(place)
      @lock.unlock if @lock.owned? # an interrupt struck in the `ensure` of {#acquire}
      @lock.synchronize { Thread.handle_interrupt(UNINTERRUPTED) { give_back(place) } }
    ensure
      # Interrupted while waiting for the lock: finishes first, then lets the exception propagate.
      release(place) unless place.free?
    end

    # Runs the block in a slot, without a thing and without the lock, if a slot is free and nobody
    # waits.
    #
    # @return the block's value; {NONE}: no slot was free, and the block has not begun
    # @scheduling waits only for the lock, when others wait
    # @thread any
    def hold
      return NONE unless @waiting.empty?

      slot = Object.new
      begin
        @held[slot] = true
        full? ? NONE : yield
      ensure
        begin
          vacate(slot)
          vacated = true
        ensure
          vacate(slot) unless vacated # interrupted
        end
      end
    end

    # Spoils the things in use. The idle ones are for the caller to take ({#take_idle}).
    #
    # @return [Integer] how many things are idle
    # @scheduling waits only for the lock
    # @thread any
    def drain
      @lock.synchronize do
        Thread.handle_interrupt(UNINTERRUPTED) do
          @generation += 1
          idle_things.size
        end
      end
    end

    # Moves an idle thing, if any, into a place that has neither a slot nor a thing.
    #
    # @param place [Place]
    # @return [void]
    # @scheduling waits only for the lock
    # @thread any
    def take_idle(place)
      @lock.synchronize do
        Thread.handle_interrupt(UNINTERRUPTED) { place.thing, @idle = @idle if @idle }
      end
    end

    # Whether the thing in this place must not be handed out again.
    #
    # @param place [Place] that is held
    # @return [Boolean]
    # @thread any
    def spoiled?(place) = place.spoiled || place.generation != @generation

    # For a forked child, in which the lock may be held by a thread that does not exist there.
    #
    # @return [Array] a copy of the idle things
    def idle_after_fork = idle_things

    # Refuses all present and future waiters.
    #
    # @return [void]
    # @scheduling waits only for the lock
    # @thread any
    def close
      @lock.synchronize do
        Thread.handle_interrupt(UNINTERRUPTED) do
          @closed = true
          @waiting.each_key(&:refuse)
          @waiting.clear
        end
      end
    ensure
      close unless @closed && @waiting.empty? # interrupted, as in {#release}
    end

    # @return [Boolean] whether {#close} was called
    # @thread any
    def closed? = @closed

    # @return [Hash{Symbol=>Integer, Float}] see {ConnectionPool#stats}
    # @thread any
    def stats
      { size: @size, in_use: @held.size, idle: idle_things.size, waiting: @waiting.size,
        **@waits.to_h }
    end

    # @return [Array<Place>] the waiters, in order
    # @thread any
    def waiting = @waiting.keys

    private

    # Called with the lock, interrupts masked.
    def grant_or_enqueue(place)
      return place.refuse if @closed

      place.state = :waiting # from now on, there may be something to give back
      take(place) if @waiting.empty?
      return if place.held?

      place.wakeup = Thread::ConditionVariable.new
      @waiting[place] = true
      hand_out # what {#hold} gave back just before
    end

    # Called with the lock, interrupts masked. Makes the place :held if there is a slot.
    def take(place)
      @held[place] = true
      return @held.delete(place) if full?

      place.generation = @generation
      place.thing, @idle = @idle unless place.thing
      place.state = :held
    end

    def idle_things
      things = []
      rest = @idle
      while rest
        thing, rest = rest
        things.unshift(thing)
      end
      things
    end

    # Whether more slots are taken than exist.
    def full? = @held.size > @size

    # Gives back what {#hold} took; does no harm when called twice.
    def vacate(slot)
      @held.delete(slot)
      serve unless @waiting.empty?
    end

    # Gives the waiters what {#hold} has given back.
    def serve
      done = false
      @lock.synchronize do
        Thread.handle_interrupt(UNINTERRUPTED) do
          hand_out
          done = true
        end
      end
    ensure
      serve unless done # interrupted, as in {#release}
    end

    # Called with the lock, interrupts masked. If this was left half done, the first waiter already
    # has its slot.
    def hand_out
      until @waiting.empty?
        place, = @waiting.first
        take(place) unless place.held?
        return unless place.held?

        place.wake
        @waiting.delete(place)
      end
    end

    # Called with the lock. Ignores the value of ConditionVariable#wait: under a scheduler it is
    # true even after a timeout.
    def wait_for_turn(place, timeout)
      place.fiber = Fiber.current
      place.asked = start = now
      begin
        while place.waiting?
          rest = timeout && (start + timeout - now)
          return @waits.count_timeout if rest && rest <= 0

          place.wakeup.wait(@lock, rest)
        end
      ensure
        place.since = finish = now
        @waits.count(finish - start)
      end
    end

    # Called with the lock, interrupts masked. There are waiters only while all slots are taken
    # (except those that {#hand_out} is about to give), so nobody who arrived later can have been
    # served in between.
    def give_back(place)
      @waiting.delete(place)
      place.thing = nil if spoiled?(place)
      @idle, place.thing = [place.thing, @idle], nil if place.thing
      @held.delete(place)
      hand_out
      place.state = :none
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
