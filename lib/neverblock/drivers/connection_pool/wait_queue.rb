# frozen_string_literal: true

require_relative "../../sync/pools"

module NB
  module Drivers
    module ConnectionPool
      # The queue of those who wait for a connection of one ConnectionPool::TimedStack. All methods
      # use the stack's own mutex.
      #
      # @api private
      class WaitQueue
        # One waiter: what wakes it, what it was handed, its fiber, and since when it waits.
        Turn = Struct.new(:wakeup, :connection, :fiber, :since)
        # Handed out instead of a connection: room to make one.
        ROOM = Object.new
        private_constant :Turn, :ROOM

        # @param stack [ConnectionPool::TimedStack]
        # @param mutex [Thread::Mutex] the stack's own
        def initialize(stack, mutex)
          @stack = stack
          @mutex = mutex
          start
          @name = name
          @waits = Pools.wait_count(@name)
          Pools.add(self)
        end

        # @return [WaitCount] see {Pools}
        attr_reader :waits

        # Only the gem knows who holds a connection: it is in the locals of each fiber.
        #
        # @return [Pools::Account] without the gem's lock
        def account
          made, stored = %i[@created @que].map { |name| @stack.instance_variable_get(name) }
          idle = stored.size
          Pools::Account.new(
            name: @name, kind: "ConnectionPool", size: @stack.max, in_use: [made - idle, 0].max,
            idle: idle, waiting: turns.size, waits: @waits, holders: [],
            waiters: turns.keys.map { |turn| Pools::Waiter.new(turn.fiber, turn.since) }
          )
        end

        # The same as TimedStack#pop, but in order of arrival.
        #
        # @param timeout [Numeric] seconds
        # @param options [Hash] of TimedStack#pop
        # @return [Object, nil] nil after the timeout with `exception: false`
        # @scheduling may wait
        def pop(timeout, options)
          taken = @mutex.synchronize do
            refuse_at_the_end
            connection = take(options) if turns.empty?
            connection || wait(timeout, options) || refuse(timeout, options)
          end
          ROOM.equal?(taken) ? make : taken
        end

        # Hands the connection to the first waiter.
        #
        # @return [Boolean] false: nobody waits, or the pool is shutting down
        # @scheduling waits only for the lock
        # @thread any
        def give(connection) = @mutex.synchronize { !ending? && hand_over(connection) }

        # Makes all waiters look again for room, or for the pool's shutdown.
        #
        # @scheduling waits only for the lock
        # @thread any
        def wake_all = @mutex.synchronize { turns.each_key { |turn| turn.wakeup.signal } }

        private

        def start
          @pid = Process.pid
          @turns = {}.compare_by_identity # a Hash for its O(1) shift and delete
        end

        # A forked child has copies of its parent's waiters, which would take connections and never
        # run.
        def turns
          start unless @pid == Process.pid
          @turns
        end

        # The place of the block that connects, because the gem's pools have no names.
        def name
          path, line = @stack.instance_variable_get(:@create_block)&.source_location
          path ? Pools.name_of(path, line) : "connection_pool"
        end

        def shutdown_block = @stack.instance_variable_get(:@shutdown_block)
        def ending? = !shutdown_block.nil?
        def refuse_at_the_end = ending? && raise(::ConnectionPool::PoolShuttingDownError)

        # The stack itself ignores options, but an application's own version of it may use them.
        def take(options)
          stored(options) || reserve
        end

        # 2.x takes options as a Hash, 3.x as keywords. The method comes with 2.5.1.
        def stored(options)
          return fetch(**options.except(:timeout, :exception)) unless old?
          return fetch(options) if @stack.respond_to?(:try_fetch_connection, true)

          there = @stack.__send__(:connection_stored?, options)
          @stack.__send__(:fetch_connection, options) if there
        end

        def fetch(...) = @stack.__send__(:try_fetch_connection, ...)

        def old? = ::ConnectionPool::VERSION.to_i < 3

        def reserve
          return unless room?

          change_created(1)
          ROOM
        end

        def room? = @stack.instance_variable_get(:@created) < @stack.max

        def change_created(by)
          created = @stack.instance_variable_get(:@created)
          @stack.instance_variable_set(:@created, [created + by, 0].max)
        end

        # The gem connects while it holds its lock. Others would have to wait for that lock to
        # return a connection, and a fiber cancelled during that wait would keep its connection.
        def make
          made = false
          connection = @stack.instance_variable_get(:@create_block).call
          made = true
          connection
        ensure
          give_up_room unless made
        end

        # Before 2.5.4 the gem itself never counted down.
        def give_up_room
          return @stack.decrement_created if @stack.respond_to?(:decrement_created)

          @mutex.synchronize { change_created(-1) }
          wake_all
        end

        def wait(timeout, options)
          start = now
          turn = Turn.new(Thread::ConditionVariable.new, nil, Fiber.current, start)
          turns[turn] = true
          deadline = start + timeout
          connection = nil
          until connection || (rest = deadline - now) <= 0
            turn.wakeup.wait(@mutex, rest)
            refuse_at_the_end unless turn.connection
            connection = turn.connection || (take(options) if first?(turn))
          end
          turn.connection = nil
          connection
        ensure
          turns.delete(turn)
          leave(turn.connection) if turn.connection # and then an exception came first
          call_next
          @waits.count(now - start)
        end

        def first?(turn) = turns.first&.first.equal?(turn)

        # Does what TimedStack#push does. The stack's resource is where threads wait that came
        # before the queue.
        def leave(connection)
          return if !ending? && hand_over(connection)

          ending? ? shut(connection) : @stack.send(:store_connection, connection)
          @stack.instance_variable_get(:@resource).broadcast
        end

        def shut(connection)
          change_created(-1)
          shutdown_block.call(connection)
        end

        # Whoever is first now may have looked, and found that it was not its turn.
        def call_next
          turn, = turns.first
          turn&.wakeup&.signal if @stack.instance_variable_get(:@que).any? || room?
        end

        def hand_over(connection)
          turn, = turns.shift
          return false unless turn

          turn.connection = connection
          turn.wakeup.signal
          true
        end

        def refuse(timeout, options)
          @waits.count_timeout
          kind = options.fetch(:exception, ::ConnectionPool::TimeoutError) or return
          kind = ::ConnectionPool::TimeoutError if old? # the old versions raise no other
          raise kind, "Waited #{timeout} sec, #{@stack.length}/#{@stack.max} available"
        end

        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
