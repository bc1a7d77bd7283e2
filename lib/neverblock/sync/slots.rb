# frozen_string_literal: true

require_relative "../errors"
require_relative "wait_count"

module NB
  # A fixed number of slots, each for one thing that is costly to make, handed out in the order in
  # which they are asked for. The waiting half of {ConnectionPool}: it knows of no connections.
  #
  # Whoever wants a slot brings a {Place}, which at any moment says what it has. So an exception may
  # strike anywhere (Thread#raise, a cancel, a timeout): {#release} reads the place and gives back
  # exactly that, and one waiter gets it. Waiters are fibers or threads, of any scheduler.
  #
  # Nobody waits while interrupts are masked, except for {#lock}: the mask belongs to the thread and
  # would hold back the interrupts of all its other fibers.
  #
  # All of it changes with the lock, except for @held, which {#hold} changes without. An interrupt,
  # or another thread, may come in whenever a call returns; so nothing there depends on what a call
  # has returned, and each takes first and looks then whether that was too much.
  #
  # No mask holds back what a signal's handler raises on the main thread. So nothing is counted:
  # each change can be made twice, and {#release} makes all of them that may have been left half
  # made. A thing changes hands between an instance variable and a Place's attribute, where no call
  # returns in between.
  #
  # @api private
  class Slots
    # What {#hold} returns when there is no free slot.
    NONE = Object.new.freeze

    # What one asker has. Changed only by Slots, with the lock; but the holder may change `thing`
    # and `spoiled`.
    class Place
      # @return [Symbol] :none, :waiting, :held (a slot, perhaps without a thing) or :refused
      attr_accessor :state
      # @return [Object, nil] what is in the slot; the holder of an empty slot makes one
      attr_accessor :thing
      # @return [Boolean, nil] the thing is not to be used again
      attr_accessor :spoiled
      # @return [Integer, nil] how many times {Slots#drain} had been called when it got its slot
      attr_accessor :generation
      # @return [Thread::ConditionVariable, nil] of this waiter alone: nobody is woken in vain
      attr_accessor :wakeup
      # @return [Fiber, nil] who had to wait
      attr_accessor :fiber
      # @return [Float, nil] when that wait began; when it was over, or who holds the slot was seen
      attr_accessor :asked, :since

      # Has nothing yet.
      def initialize = @state = :none

      # Ends its wait without a slot.
      def refuse
        @state = :refused
        wake
      end

      # To be called after each change of its state.
      def wake = @wakeup&.signal

      # @return [Boolean] whether there is nothing to give back
      def free? = @state == :none

      # @return [Boolean]
      def held? = @state == :held

      # @return [Boolean]
      def waiting? = @state == :waiting
    end

    # @param size [Integer] how many slots, 1 or more
    # @param waits [WaitCount] of those who wait for one
    def initialize(size, waits = WaitCount.new)
      @size = size
      @lock = Thread::Mutex.new
      # Things in no one's hands, [thing, rest] or nil; the last one in is the first out, the rest
      # may go cold.
      @idle = nil
      @waiting = {}.compare_by_identity # places in FIFO order; a Hash for its O(1) shift and delete
      @held = {}.compare_by_identity # a key for each slot in use: its place, or that of {#hold}
      @waits = waits
      @generation = 0
      @closed = false
    end

    # Gets a slot for the place, waiting for its turn. Must be followed by {#release}, whatever
    # comes.
    #
    # @param place [Place] a new one
    # @param timeout [Float, nil] seconds; nil: forever; 0: only if there is one now
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
      # Ruby 3.1 comes out of an interrupted ConditionVariable#wait without the lock.
      @lock.unlock if @lock.owned?
    end

    # Gives back what the place has, be it a slot, a turn in the queue or nothing.
    #
    # @param place [Place] that went through {#acquire}, which may have raised
    # @return [void]
    # @scheduling waits only for the lock
    # @thread any
    def release(place)
      @lock.unlock if @lock.owned? # an interrupt struck in the `ensure` of {#acquire}
      @lock.synchronize { Thread.handle_interrupt(UNINTERRUPTED) { give_back(place) } }
    ensure
      # Interrupted while it waited for the lock: first do it, then let that go on its way.
      release(place) unless place.free?
    end

    # Runs the block in a slot, without a thing and without the lock, if one is free and nobody
    # waits.
    #
    # @return the block's value; {NONE}: there was no slot, and the block has not begun
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

    # Spoils what is in use. What is idle is the caller's to take ({#take_idle}).
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

    # Moves an idle thing, if there is one, into a place that has neither a slot nor a thing.
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

    # Whether the thing in this place is not to be handed out again.
    #
    # @param place [Place] that is held
    # @return [Boolean]
    # @thread any
    def spoiled?(place) = place.spoiled || place.generation != @generation

    # For the child of a fork, where a thread that does not exist there may have the lock.
    #
    # @return [Array] a copy of the idle things
    def idle_after_fork = idle_things

    # Refuses all who wait and all who will come.
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

    # @return [Array<Place>] of those who wait, in their order
    # @thread any
    def waiting = @waiting.keys

    private

    # Called with the lock, interrupts masked.
    def grant_or_enqueue(place)
      return place.refuse if @closed

      place.state = :waiting # from now on there may be something to give back
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

    # Whether more are taken than there are.
    def full? = @held.size > @size

    # Gives back what {#hold} took; does no harm twice.
    def vacate(slot)
      @held.delete(slot)
      serve unless @waiting.empty?
    end

    # Gives those who wait what {#hold} has given back.
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

    # Called with the lock, interrupts masked. The first has a slot already where this was left
    # half made.
    def hand_out
      until @waiting.empty?
        place, = @waiting.first
        take(place) unless place.held?
        return unless place.held?

        place.wake
        @waiting.delete(place)
      end
    end

    # Called with the lock. Does not trust the value of ConditionVariable#wait: under a scheduler it
    # is true after a timeout as well.
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

    # Called with the lock, interrupts masked. Somebody waits only when all slots are taken (but for
    # those that {#hand_out} is about to give), so nobody who comes later can have been served in
    # between.
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
