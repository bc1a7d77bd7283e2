# frozen_string_literal: true

require_relative "../errors"
require_relative "check"
require_relative "keyed_limiters"
require_relative "slots"

module NB
  # Limits how many blocks run at a time, or how many start within a time span. Further blocks wait
  # for their turn in order of arrival. Use it for the limits of an API or a host.
  #
  # Fibers and threads may share a limiter. Whatever ends a block or a wait (an error, a cancel, a
  # timeout) gives its turn back. A forked child starts with all turns free.
  #
  # @example At most five requests at a time, and at most ten per second to each host
  #   requests = NB::Limiter.new(5)
  #   hosts = NB::Limiter.new(10, per: 1.0)
  #   uris.each { |uri| NB.async { requests.with { hosts[uri.host].with { Net::HTTP.get(uri) } } } }
  class Limiter
    # @return [Integer]
    attr_reader :limit
    # @return [Numeric, nil] seconds
    attr_reader :per
    # @return [Boolean, nil] whether its key has a newer limiter
    # @api private
    attr_accessor :forgotten

    # @param limit [Integer] how many, 1 or more
    # @param per [Numeric, nil] seconds, > 0: `limit` blocks may start within any span of this
    #   length, however long they run. nil: `limit` blocks may run at a time
    # @raise [ArgumentError]
    def initialize(limit, per: nil)
      @limit = Check.count("limit", limit)
      @per = Check.finite_seconds("per:", per, positive: true) unless per.nil?
      start
      @late = 0
      @lock = Thread::Mutex.new # guards @keys and the restart after a fork
    end

    # Waits for its turn, then runs the block.
    #
    # @param timeout [Numeric, nil] seconds to wait for the turn; 0: do not wait; nil: no limit
    # @return the block's value
    # @raise [NB::LimiterTimeoutError] if the turn does not come in time; the block has not begun
    # @raise [ArgumentError] if timeout is no number of seconds
    # @scheduling may wait
    # @thread any
    def with(timeout: nil, &block)
      Check.block("Limiter#with", block_given?)
      limit = Check.seconds("timeout:", timeout) unless timeout.nil?
      restart_after_fork
      @per ? after_turn(limit, &block) : in_slot(limit, &block)
    end

    # The limiter for one key, such as a host. All code that uses the same key shares it; it has
    # this limiter's limits. An unused key takes no memory.
    #
    # @param key [Object] any Hash key
    # @return [KeyedLimiters::Key] with a `with` and `stats` of its own
    # @scheduling never waits
    # @thread any
    def [](key)
      keys = @keys || @lock.synchronize { @keys ||= KeyedLimiters.new { copy } }
      keys[key]
    end

    # @return [Hash{Symbol=>Integer, Float}] `limit`, `running` (with per: how many started in the
    #   last span), `waiting`; and since the start: `waits`, `timeouts`, `wait_seconds` (with per:
    #   without the wait for the time once a block is first in line)
    # @scheduling never waits
    # @thread any
    def stats
      restart_after_fork
      slots = @slots.stats
      running, first = @per ? [lately, slots[:in_use]] : [slots[:in_use], 0]
      { limit: @limit, running: running, waiting: slots[:waiting] + first, waits: slots[:waits],
        timeouts: slots[:timeouts] + @late, wait_seconds: slots[:wait_seconds] }
    end

    # @return [String] e.g. `#<NB::Limiter 5 at a time, 5 running, 12 waiting>`
    def inspect
      counts = stats
      "#<#{self.class.name} #{@limit} #{@per ? "per #{@per} s" : "at a time"}, " \
        "#{counts[:running]} running, #{counts[:waiting]} waiting>"
    end

    # @return [Boolean] whether a new one would act the same: it is not in use, and was not lately
    # @api private
    def fresh?
      restart_after_fork
      slots = @slots.stats
      slots[:in_use].zero? && slots[:waiting].zero? && (@per.nil? || lately.zero?)
    end

    private

    def copy = Limiter.new(@limit, per: @per)

    def start
      @slots = Slots.new(@per ? 1 : @limit) # with per: the one slot is for waiting for the time
      @begun = [] # when the last blocks started, at most `limit`; changed only in the slot
      @pid = Process.pid
    end

    # Slots taken in the parent are not given back here.
    def restart_after_fork
      return if @pid == Process.pid

      @lock.synchronize { start unless @pid == Process.pid }
    end

    def in_slot(limit, &block)
      slots = @slots
      value = slots.hold(&block)
      Slots::NONE.equal?(value) ? in_turn(slots, limit, &block) : value
    end

    def in_turn(slots, limit)
      place = Slots::Place.new
      begin
        return yield if slots.acquire(place, limit)
      ensure
        begin
          slots.release(place) # not @slots: the block may have forked, and run on in the child
        ensure
          slots.release(place) unless place.free? # interrupted before it began
        end
      end
      too_late(limit)
    end

    def after_turn(limit)
      deadline = limit && (now + limit)
      in_slot(limit) { wait_for_time(deadline, limit) }
      yield
    end

    def wait_for_time(deadline, limit)
      time = now
      if @begun.size >= @limit
        at = [@begun[-@limit], now].min + @per # a virtual clock that has ended may be ahead
        (@late += 1) && too_late(limit) if deadline && at > deadline
        while (rest = at - time).positive?
          sleep(rest)
          time = now
        end
      end
      @begun.push(time) # first: an interrupt in between must not let one more start
      @begun.shift if @begun.size > @limit
    end

    def lately
      since = now - @per
      @begun.count { |at| at > since }
    end

    def too_late(limit)
      raise LimiterTimeoutError, "no turn within #{limit} s: #{inspect}"
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
