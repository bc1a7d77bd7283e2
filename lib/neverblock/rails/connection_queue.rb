# frozen_string_literal: true

require_relative "pinned_connection"
require_relative "pool_waits"

module NB
  module Rails
    # Prepended to ActiveRecord's own queue of free connections: the only place where we reach into
    # its pool. A thousand fibers may wait there, so they stand in a line, and a returned connection
    # is for the first of them:
    #
    # - As many waiters are woken as there are connections. A woken waiter that gives up passes its
    #   wake-up on. Rails signals one condition for all, and relies on Ruby for the rest.
    # - Code that wants all connections (`disconnect`, `clear_reloadable_connections`) goes first,
    #   as Rails intends. With state per fiber, Rails' own way of doing that finds nobody.
    # - The time they wait is counted ({PoolWaits}).
    # - A fiber that waits long looks for one that holds a connection without using it
    #   ({PinnedConnection}).
    # - If a connection could not be opened, the first waiter learns that there is room for one
    #   ({Room}). By itself Rails would let it wait for a connection that never comes.
    #
    # All of this happens under `@lock`, the pool's monitor. `@queue` (the free connections) and
    # `@num_waiting` are Rails' own; `@preferred`, `@line` and `@room` are ours:
    #
    #   a waiter                  joins `@line`; waits for its own condition until it is among the
    #                             first `@queue.size + @room`; takes a connection (or room, as nil);
    #                             leaves the line; and has the next waiters looked at again
    #   a return (`add`)          puts the connection into `@queue` and signals those first waiters
    #   a failed connect          raises `@room` and signals them
    #
    # So one `ensure` gives up the place in the line, whatever ended the wait, and what was meant
    # for that waiter is there for the next one.
    module ConnectionQueue
      # Seconds before a waiting fiber asks who holds the connections, and between two such checks.
      LOOK_AFTER = 1.0
      # Read once: reading it at each wait would cost more than the wait.
      EIGHT_ONE = ::ActiveRecord.version >= Gem::Version.new("8.1.a")

      # Returns a connection. As in Rails, called under the pool's lock.
      # @api private
      def add(connection) = put { @queue.push(connection) }

      # From Rails 8.1 on: returns a connection that was only maintained.
      # @api private
      def add_back(connection) = put { @queue.unshift(connection) }

      # Works like Rails' own method, for fibers too: whoever runs the block goes to the head of the
      # line. Such blocks may overlap.
      # @api private
      def with_a_bias_for(context)
        place = [context]
        synchronize { @preferred = [*@preferred, place] }
        yield
      ensure
        synchronize { @preferred = @preferred.to_a.reject { |one| one.equal?(place) } }
      end

      # Called when a connection could not be opened.
      # @api private
      def tell_of_room
        synchronize do
          @room = [(@room || 0) + 1, @lock.size || 1].min
          call_first
        end
      end

      # @return [WaitCount] of the waits for this pool, for {PoolWaits}
      # @api private
      def waits = @waits || (made = Pools.wait_count(@lock.db_config.name)) && (@waits ||= made)

      # @return [Array<Pools::Waiter>]
      # @api private
      def waiters = line.values.map { |fiber, since| Pools::Waiter.new(fiber, since) }

      # @return [Pools::Holder, nil] nil: the connection was returned meanwhile
      # @api private
      def holder(connection)
        owner = connection.owner
        Pools::Holder.new(owner, @got && @got[connection]) if owner
      end

      private

      def put
        synchronize do
          yield
          call_first
        end
      end

      # The line: for each waiting fiber its condition, the fiber, and since when it waits; in order
      # of arrival.
      def line = @line ||= {}.compare_by_identity

      def stand_in_line(condition, start)
        line[condition] = [Fiber.current, start]
        return unless preferred?

        @line = { condition => line[condition] }.compare_by_identity.update(line)
      end

      def preferred?
        @preferred&.any? { |one,| one.equal?(ActiveSupport::IsolatedExecutionState.context) }
      end

      # A timeout strikes where code computes, too: neither the place in the line nor a connection
      # that was taken may be lost by that.
      def wait_poll(timeout)
        @num_waiting += 1 # first, so that whatever strikes finds it counted
        connection = taken = nil
        start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        condition = @lock.new_cond
        stand_in_line(condition, start)
        wait_for_turn(condition, start, timeout)
        Thread.handle_interrupt(UNINTERRUPTED) do
          connection = remove
          @room -= 1 unless connection
          leave(condition, start, connection)
          taken = true
        end # what was kept back strikes here
        whole = true
        connection
      ensure
        Thread.handle_interrupt(UNINTERRUPTED) do
          taken ? give_back(connection) : leave(condition, start)
        end unless whole
      end

      def leave(condition, start, connection = nil)
        line.delete(condition)
        @num_waiting -= 1
        call_first
        note_wait(start, connection) if start
      end

      def give_back(connection)
        connection ? @queue.unshift(connection) : @room += 1
        call_first
      end

      # When somebody received a connection after a wait; {PoolListing} asks this.
      def note_wait(start, connection)
        now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        (@got ||= ObjectSpace::WeakMap.new)[connection] = now if connection
        waits.count(now - start)
      end

      def wait_for_turn(condition, start, timeout)
        until turn?(condition)
          waited = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
          give_up(timeout, waited) if waited >= timeout
          pause(condition, [timeout - waited, LOOK_AFTER].min)
          look(start + waited) if waited >= LOOK_AFTER
        end
      end

      # One waiter checks for all: a check costs a backtrace per connection. When 200 waiters
      # checked once a second each, the process did nothing else.
      def look(now)
        return if @looked && now - @looked < LOOK_AFTER

        @looked = now
        PinnedConnection.look(@lock)
      end

      # As many may continue as there are connections, and room for new ones.
      def turn?(condition) = first.include?(condition)
      def call_first = line.empty? || first.each(&:signal)

      def first
        count = @queue.size + (@room || 0)
        count.zero? ? [] : line.each_key.first(count)
      end

      # Rails 7.2 allows code reloading meanwhile; 8.1 no longer does.
      def pause(condition, seconds)
        return condition.wait(seconds) if EIGHT_ONE

        ActiveSupport::Dependencies.interlock.permit_concurrent_loads { condition.wait(seconds) }
      end

      def give_up(timeout, waited)
        waits.count_timeout
        raise ::ActiveRecord::ConnectionTimeoutError, format(
          "could not obtain a connection from the pool within %0.3f seconds (waited %0.3f " \
          "seconds); all pooled connections were in use. Raise connections: or checkout_timeout: " \
          "in config/database.yml, or shorten what holds them:\n%s",
          timeout, waited, PinnedConnection.holders(@lock)
        )
      end
    end
  end
end
