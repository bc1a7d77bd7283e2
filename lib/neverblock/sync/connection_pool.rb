# frozen_string_literal: true

require "timeout"
require_relative "../errors"
require_relative "check"
require_relative "interruption"
require_relative "pools"
require_relative "slots"
require_relative "tidy"

module NB
  # Shares at most `size` connections among any number of fibers and threads.
  #
  # - Fair: first come, first served. Each check-in wakes one waiter and hands it the connection.
  # - Per fiber: within {#with}, another {#with} of the same fiber yields the same connection.
  #   For plain threads, that means per thread.
  # - Connections are made when needed; the block of `new` runs in the fiber that needs one. Dead
  #   connections are closed and replaced.
  # - An interrupt at any point loses no slot, and never lends a connection to two users.
  # - After a fork, the child starts with an empty pool and leaves the parent's connections alone,
  #   even when it leaves a block of {#with} that it was forked in.
  #
  # It works under any fiber scheduler, and without one.
  #
  # A connection whose block was left in the middle is cleaned at once, or replaced. With pg, mysql2
  # and trilogy, a running query is cancelled and an open transaction is rolled back, even if the
  # block ended normally and left its transaction open. After the block's own exception, or a
  # `throw`, the connection is used again. A timeout, a cancel or a kill can strike anywhere:
  # between a `SET` or a lock and its undoing, or with half an answer read. Then the connection is
  # closed, and a new one is made when needed. (Outside our loop, two are not recognized: a
  # Fiber#kill, and a timeout with an error class of its own, unless that is a Timeout::Error.) Pass
  # `tidy:` to decide otherwise.
  #
  # @example
  #   pool = NB::ConnectionPool.new(size: 12) { PG.connect(dbname: "test") }
  #   pool.with { |connection| connection.exec("SELECT 1") }
  class ConnectionPool
    # The errors by which the usual drivers report a lost connection.
    DEAD = %i[closed? finished?].freeze
    ALIVE = lambda do |connection|
      DEAD.none? { |name| connection.respond_to?(name) && connection.public_send(name) } &&
        !Tidy.lost?(connection)
    end
    # If a server takes longer than this to answer, the connection is given up.
    TIDY_SECONDS = 5
    CLOSE = ->(connection) { connection.close if connection.respond_to?(:close) }
    # What one process has; a forked child starts afresh. `leases`: fiber => its place, while the
    # block of {#with} runs.
    Own = Struct.new(:pid, :slots, :leases)
    private_constant :DEAD, :ALIVE, :TIDY_SECONDS, :CLOSE, :Own

    # @return [Integer] the maximum number of connections
    attr_reader :size
    # @return [Float, nil] seconds that {#with} waits for a connection; nil: no limit
    attr_reader :timeout
    # @return [String] its name in {NB.pools} and /metrics
    attr_reader :name
    # @return [WaitCount] see {Pools}
    # @api private
    attr_reader :waits

    # @param size [Integer] the maximum number of connections, 1 or more
    # @param timeout [Float, nil] seconds that {#with} waits for its turn, 0 or more; nil: no limit.
    #   Making a connection does not count: the driver's own timeout limits that
    # @param alive [#call] gets an idle connection and returns whether it can be used; it may wait.
    #   Default: false if `connection.closed?` or `connection.finished?`, or if trilogy's `check`
    #   fails
    # @param tidy [#call] gets a connection whose block was left in the middle, and returns whether
    #   it can be used; it may wait, and raising means no. If given, it also decides after a timeout
    #   or a cancel. Default: see above
    # @param close [#call] gets a connection that is no longer wanted. Default: `connection.close`,
    #   or nothing if there is no such method
    # @param abandon [#call, nil] in a forked child, gets each connection of the parent: for
    #   connections that say goodbye to the server when they are collected, as PG::Connection does
    # @param name [String, nil] for {NB.pools} and `nb_pool_…` in /metrics; nil: the line of the
    #   program that makes the pool
    # @yieldreturn [Object] a new connection
    # @raise [ArgumentError] for an invalid argument
    def initialize(size:, timeout: 5.0, alive: ALIVE, tidy: Tidy, close: CLOSE, abandon: nil,
                   name: nil, &connect)
      Check.block("NB::ConnectionPool.new", connect)
      @size = Check.count("size:", size)
      @timeout = Check.seconds("timeout:", timeout)
      @alive = Check.callable("alive:", alive)
      @tidy = Check.callable("tidy:", tidy)
      @close = Check.callable("close:", close)
      @abandon = abandon && Check.callable("abandon:", abandon)
      @connect = connect
      @inherited = []
      @name = name ? name.to_s : Pools.place
      @waits = Pools.wait_count(@name)
      start
      Pools.add(self)
    end

    # Lends a connection to the block.
    #
    # @param timeout [Float, nil] as for {#initialize}, for this call only
    # @yieldparam connection [Object] within {#with}, the one this fiber already has
    # @return [Object] the value of the block
    # @raise [NB::PoolTimeoutError] if no connection became free in time
    # @raise [NB::ClosedError] after {#close}
    # @raise [Exception] whatever the connect block raised; its slot goes to the next waiter
    # @scheduling may wait
    # @thread any
    def with(timeout: @timeout, &block)
      raise ArgumentError, "ConnectionPool#with needs a block" unless block_given?

      restart_after_fork
      fiber = Fiber.current
      held = @own.leases[fiber]
      return yield(held.thing) if held

      timeout = Check.seconds("timeout:", timeout) unless timeout.equal?(@timeout)
      lend(fiber, timeout, &block)
    end

    # Marks this fiber's connection as unusable: it is closed when the block of {#with} ends, and
    # replaced when the next one is needed.
    #
    # @return [self]
    # @raise [FiberError] outside {#with}
    # @scheduling never waits
    # @thread any
    def discard
      place = @own.leases[Fiber.current]
      raise FiberError, "this fiber holds no connection: call discard within #with" unless place

      place.spoiled = true
      self
    end

    # Closes all connections: the idle ones now, the others when they come back. The pool continues
    # with new ones.
    #
    # @return [self]
    # @scheduling may wait, as closing a connection may
    # @thread any
    def reload
      restart_after_fork
      close_idle(@own.slots)
      self
    end

    # The same as {#reload}; and from now on {#with} raises {NB::ClosedError}, also where it waits.
    #
    # @return [self]
    # @scheduling may wait, as closing a connection may
    # @thread any
    def close
      restart_after_fork
      @own.slots.close
      reload
    end

    # @return [Boolean] whether {#close} was called
    # @thread any
    def closed? = @own.slots.closed?

    # @return [Hash{Symbol=>Integer, Float}] `size`; `in_use`, including connections being made;
    #   `idle`; `waiting`; and since the start: `waits` (check-outs that had to wait), `timeouts`,
    #   `wait_seconds` in all, `longest_wait_seconds`
    # @scheduling never waits
    # @thread any
    def stats = own_here.slots.stats

    # @return [Pools::Account]
    # @api private
    def account
      own = own_here
      Pools::Account.new(
        name: @name, kind: kind, waits: @waits,
        **own.slots.stats.slice(*%i[size in_use idle waiting]),
        holders: own.leases.to_a.map { |fiber, held| Pools::Holder.new(fiber, nil, held) },
        waiters: own.slots.waiting.map { |one| Pools::Waiter.new(one.fiber, one.asked) }
      )
    end

    # @return [String] e.g. `#<NB::ConnectionPool size=12 in_use=3 idle=2 waiting=0>`
    def inspect
      words = stats.slice(:size, :in_use, :idle, :waiting).map { |key, value| "#{key}=#{value}" }
      "#<#{self.class.name} #{words.join(" ")}>"
    end

    private

    def kind = "NB::ConnectionPool"

    # Makes the state anew in a forked child that has not used the pool yet.
    def own_here = @own.pid == Process.pid ? @own : new_own

    def new_own = Own.new(Process.pid, Slots.new(@size, @waits), {}.compare_by_identity)

    def lend(fiber, timeout)
      own = @own
      place = Slots::Place.new
      begin
        checkout(own.slots, place, timeout)
        own.leases[fiber] = place
        value = yield place.thing
        whole = true
        value
      ensure
        begin
          take_back(own, fiber, place, whole)
          taken = true
        ensure
          take_back(own, fiber, place, whole) unless taken # interrupted
        end
      end
    end

    # Does no harm when called twice.
    def take_back(own, fiber, place, whole) # rubocop:disable Metrics/ParameterLists
      restart_after_fork
      own.leases.delete(fiber)
      give_back(own.slots, place, whole) if own.equal?(@own) # otherwise it is the parent's
    end

    def start
      @own = new_own
    end

    # Keeps the parent's connections referenced: collecting one might tell the server to close it.
    def restart_after_fork
      return if @own.pid == Process.pid

      inherited = @own.slots.idle_after_fork + @own.leases.values.map(&:thing)
      @inherited << [inherited, @own]
      start
      inherited.each(&@abandon) if @abandon
    end

    # Called with nothing but a place; {#checkin} can undo this at any point.
    def checkout(slots, place, timeout)
      raise PoolTimeoutError, timeout_message(slots, timeout) unless slots.acquire(place, timeout)

      retire(place) if place.thing && !alive?(place)
      make(place) unless place.thing
      raise TypeError, "the block that connects returned nil" unless place.thing
    end

    def make(place)
      place.thing = @connect.call
    end

    # Cleans up at once, not before the next use, because an open transaction holds locks that
    # others wait for. A second interrupt may follow the first at once. Until it is clear what to
    # do, the connection counts as unusable.
    def give_back(slots, place, whole)
      return if place.thing.nil? || place.spoiled

      place.spoiled = true
      place.spoiled = !(whole ? closed_up?(place.thing) : usable_after_error?(place.thing))
    ensure
      checkin(slots, place)
    end

    def closed_up?(connection)
      !@tidy.equal?(Tidy) || !Tidy.left_open?(connection) || tidy?(connection)
    end

    # Looks at what left the block last.
    def usable_after_error?(connection)
      struck = @tidy.equal?(Tidy) && Interruption.struck_block?($!)
      tidy?(connection) && !struck
    end

    def tidy?(connection)
      Timeout.timeout(TIDY_SECONDS) { @tidy.call(connection) }
    rescue ::Timeout::Error
      false # the connection is replaced
    rescue StandardError => error
      raise if Interruption.struck?(error) # by the caller's deadline

      false
    end

    # The connection is closed before its slot becomes free, so there are never more than `size`.
    def checkin(slots, place)
      begin
        retire(place) if place.thing && slots.spoiled?(place)
        looked = true
      ensure
        retire(place) if !looked && place.thing && slots.spoiled?(place) # interrupted
      end
    ensure
      slots.release(place)
      close_idle(slots) if slots.closed?
    end

    # One connection after the other: an interrupt leaves the rest for the next such call.
    def close_idle(slots)
      place = Slots::Place.new
      slots.drain.times do
        slots.take_idle(place)
        retire(place) if place.thing
      ensure
        retire(place) if place.thing # interrupted before that
      end
    end

    # Takes the thing out and closes it in one line: nothing can interrupt in between, so no
    # connection is lost or closed twice.
    def retire(place)
      @close.call([place.thing, place.thing = nil].first)
    rescue StandardError => error
      raise if Interruption.struck?(error) # by the caller's own deadline

      nil # it was already broken, which is often why it is being closed
    end

    def alive?(place)
      @alive.call(place.thing)
    rescue StandardError => error
      return false unless Interruption.struck?(error) # it could not even say so

      place.spoiled = true
      raise # it may be the caller's own deadline
    end

    def timeout_message(slots, timeout)
      now = slots.stats
      "no connection within #{timeout} s (#{now[:in_use]} of #{@size} in use, #{now[:waiting]} " \
        "waiting): raise size: or shorten the work in #with"
    end
  end
end
