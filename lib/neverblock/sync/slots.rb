# frozen_string_literal: true

require_relative "../errors"

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
  # @api private
  class Slots
    # Everything: with Exception instead, Thread#kill would pass.
    MASK = { Object => :never }.freeze
    private_constant :MASK

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

      # Has nothing yet.
      def initialize = @state = :none

      # Gives it a slot, and wakes it if it waits.
      def grant(thing, generation)
        @thing = thing
        @generation = generation
        settle(:held)
      end

      # Ends its wait without a slot.
      def refuse = settle(:refused)

      # @return [Boolean]
      def held? = @state == :held

      # @return [Boolean]
      def waiting? = @state == :waiting

      private

      def settle(state)
        @state = state
        @wakeup&.signal
      end
    end

    # @param size [Integer] how many slots, 1 or more
    def initialize(size)
      @size = size
      @lock = Thread::Mutex.new
      @idle = [] # things in no one's hands; the last one in is the first out, the rest may go cold
      @waiting = {}.compare_by_identity # places in FIFO order; a Hash for its O(1) shift and delete
      @taken = 0 # slots that hold a thing, or whose holder makes one
      @waits = @timeouts = 0
      @wait_seconds = @longest_wait_seconds = 0.0
      @generation = 0
      @closed = false
    end

    # Gets a slot for the place, waiting for its turn. Must be followed by {#release}, whatever
    # comes.
    #
    # @param place [Place] a new one
    # @param timeout [Float, nil] seconds; nil: for ever; 0: only if there is one now
    # @return [Boolean] whether the place has a slot; false after the timeout
    # @raise [NB::ClosedError] once these slots are closed
    # @scheduling may wait
    # @thread any
    def acquire(place, timeout)
      @lock.lock
      Thread.handle_interrupt(MASK) { grant_or_enqueue(place) }
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
      @lock.synchronize { Thread.handle_interrupt(MASK) { give_back(place) } }
    ensure
      # Interrupted while it waited for the lock: first do it, then let that go on its way.
      release(place) unless place.state == :none
    end

    # Takes out what is idle, and spoils what is in use.
    #
    # @return [Array] the idle things, which are the caller's from now on
    # @scheduling waits only for the lock
    # @thread any
    def drain
      @lock.synchronize do
        Thread.handle_interrupt(MASK) do
          @generation += 1
          @taken -= @idle.size
          @idle.slice!(0..)
        end
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
    def idle_after_fork = @idle.dup

    # Refuses all who wait and all who will come.
    #
    # @return [void]
    # @scheduling waits only for the lock
    # @thread any
    def close
      @lock.synchronize do
        Thread.handle_interrupt(MASK) do
          @closed = true
          @waiting.each_key(&:refuse)
          @waiting.clear
        end
      end
    end

    # @return [Boolean] whether {#close} was called
    # @thread any
    def closed? = @closed

    # @return [Hash{Symbol=>Integer, Float}] see {ConnectionPool#stats}
    # @thread any
    def stats
      { size: @size, in_use: @taken - @idle.size, idle: @idle.size, waiting: @waiting.size,
        waits: @waits, timeouts: @timeouts, wait_seconds: @wait_seconds,
        longest_wait_seconds: @longest_wait_seconds }
    end

    private

    # Called with the lock, interrupts masked.
    def grant_or_enqueue(place)
      if @closed
        place.refuse
      elsif @idle.any?
        place.grant(@idle.pop, @generation)
      elsif @taken < @size
        @taken += 1
        place.grant(nil, @generation)
      else
        place.wakeup = Thread::ConditionVariable.new
        @waiting[place] = true
        place.state = :waiting
      end
    end

    # Called with the lock. Does not trust the value of ConditionVariable#wait: under a scheduler it
    # is true after a timeout as well.
    def wait_for_turn(place, timeout)
      start = now
      while place.waiting?
        rest = timeout && (start + timeout - now)
        return @timeouts += 1 if rest && rest <= 0

        place.wakeup.wait(@lock, rest)
      end
    ensure
      count_wait(now - start)
    end

    # Called with the lock, interrupts masked.
    def give_back(place)
      case place.state
      when :waiting then @waiting.delete(place)
      when :held then pass_on(spoiled?(place) ? nil : place.thing)
      end
      place.thing = nil
      place.state = :none
    end

    # Called with the lock, interrupts masked. Somebody waits only when all slots are taken and no
    # thing is idle, so nobody who comes later can have been served in between.
    def pass_on(thing)
      place, = @waiting.shift
      if place
        place.grant(thing, @generation)
      elsif thing
        @idle.push(thing)
      else
        @taken -= 1
      end
    end

    def count_wait(seconds)
      @waits += 1
      @wait_seconds += seconds
      @longest_wait_seconds = seconds if seconds > @longest_wait_seconds
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
