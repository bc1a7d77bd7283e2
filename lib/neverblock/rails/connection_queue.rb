# frozen_string_literal: true

require_relative "pinned_connection"
require_relative "pool_waits"

module NB
  module Rails
    # In front of ActiveRecord's own queue of free connections, and the only place where we reach
    # into its pool. A thousand fibers may wait there, so each waits in a line, and a connection
    # that comes back is for the first of them:
    #
    # - As many are woken as there are connections; who gives up instead passes his on. Rails
    #   signals one condition for all and relies on Ruby for the rest.
    # - Who wants all of them (`disconnect`, `clear_reloadable_connections`) goes first, as Rails
    #   means it to; with state per fiber its own way to do that finds nobody.
    # - How long they wait is counted ({PoolWaits}).
    # - Who waits for long looks for the one who holds a connection without using it
    #   ({PinnedConnection}).
    # - When a connection could not be opened, the first in the line is told that there is room for
    #   one ({Room}). In Rails he waits for one that will never be.
    #
    # All of this is under `@lock`, the pool's monitor. `@queue` (the free connections),
    # `@preferred` and `@num_waiting` are Rails' own; `@line` and `@room` are ours:
    #
    #   who waits                 stands in `@line`, waits for its own condition until it is among
    #                             the first `@queue.size + @room`, takes a connection (or room, by
    #                             a nil), leaves the line, and has the next ones looked at again
    #   who gives back (`add`)    puts the connection into `@queue` and signals those first ones
    #   who fails to open one     raises `@room` and signals them
    #
    # So a place in the line is given up in one `ensure`, whatever ended the wait, and what was
    # meant for him is there for the next.
    module ConnectionQueue
      # Seconds before a waiting fiber asks who holds the connections, and between two such asks.
      LOOK_AFTER = 1.0
      # Asked once: at each wait it would cost more than the wait.
      EIGHT_ONE = ::ActiveRecord.version >= Gem::Version.new("8.1.a")

      # Gives a connection back. As in Rails, under the pool's lock.
      # @api private
      def add(connection) = put { @queue.push(connection) }

      # From Rails 8.1 on: one that was only looked after.
      # @api private
      def add_back(connection) = put { @queue.unshift(connection) }

      # As Rails, for a fiber too: whoever runs the block stands at the head of the line.
      # @api private
      def with_a_bias_for(context)
        before = synchronize { @preferred.tap { @preferred = context } }
        yield
      ensure
        synchronize { @preferred = before }
      end

      # Somebody failed to open a connection.
      # @api private
      def tell_of_room
        synchronize do
          @room = [(@room || 0) + 1, @lock.size || 1].min
          call_first
        end
      end

      # @return [WaitCount] of this pool's waits, which {PoolWaits} tells
      # @api private
      def waits = @waits || (made = Pools.wait_count(@lock.db_config.name)) && (@waits ||= made)

      # @return [Array<Pools::Waiter>]
      # @api private
      def waiters = line.values.map { |fiber, since| Pools::Waiter.new(fiber, since) }

      # @return [Pools::Holder, nil] nil: it was given back meanwhile
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

      # The line: a condition for each waiting fiber, which it is for, and since when; in the order
      # of arrival.
      def line = @line ||= {}.compare_by_identity

      def stand_in_line(condition, start)
        line[condition] = [Fiber.current, start]
        return unless @preferred && @preferred == ActiveSupport::IsolatedExecutionState.context

        @line = { condition => line[condition] }.compare_by_identity.update(line)
      end

      def wait_poll(timeout)
        start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        condition = @lock.new_cond
        stand_in_line(condition, start)
        @num_waiting += 1
        wait_for_turn(condition, start, timeout)
        connection = remove
        @room -= 1 unless connection
        connection
      ensure
        line.delete(condition)
        @num_waiting -= 1
        call_first
        note_wait(start, connection)
      end

      # When somebody got a connection for which he had waited: {PoolListing} asks.
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

      # One of them for all: a look costs a backtrace per connection, and when each of 200 looked
      # once a second, that was all that the process did.
      def look(now)
        return if @looked && now - @looked < LOOK_AFTER

        @looked = now
        PinnedConnection.look(@lock)
      end

      # As many may go on as there are connections, and room for.
      def turn?(condition) = first.include?(condition)
      def call_first = line.empty? || first.each(&:signal)

      def first
        count = @queue.size + (@room || 0)
        count.zero? ? [] : line.each_key.first(count)
      end

      # Rails 7.2 lets code be reloaded meanwhile; 8.1 has given that up.
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
