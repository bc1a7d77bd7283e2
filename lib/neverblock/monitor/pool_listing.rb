# frozen_string_literal: true

require_relative "../loop/dump"
require_relative "../loop/fork"
require_relative "../sync/database_time"
require_relative "../sync/job_counts"
require_relative "../sync/pools"
require_relative "../sync/task_names"

NB::Fork.in_child { [NB::Pools, NB::DatabaseTime, NB::JobCounts].each(&:forked) }

module NB
  # Builds the list that {NB.pools} returns: who holds, who waits, for how long and where.
  #
  # When a fiber got what it holds is known only if it had to wait for it: reading the clock each
  # time would slow down every checkout. For other fibers there is a lower bound, the longest of
  # these:
  # - since somebody saw them with it,
  # - since they began their present wait,
  # - since the first in the queue began to wait: had they come later, they would stand behind it.
  #
  # @api private
  class PoolListing
    # How many pools are listed, and how many holders and waiters of each.
    POOLS = 50
    EACH = 20
    private_constant :POOLS, :EACH

    # @param accounts [Array<Pools::Account>]
    # @param scheduler [Scheduler, nil] of the fibers that use the pools
    def initialize(accounts, scheduler)
      @accounts = accounts.sort_by { |account| -account.waiting.to_i }.first(POOLS)
      @all_waits = scheduler ? waits(scheduler) : []
      @waits = {}.compare_by_identity
      @all_waits.each { |wait| @waits[wait[:owner]] = @waits[wait[:fiber]] = wait }
      @names = TaskNames.by_fiber
      @now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # @return [Array<Hash>] see {NB.pools}
    def rows = @accounts.map { |account| row(account) }

    private

    # Of thousands of fibers, only those that hold something are looked at, unless others wait in a
    # queue.
    def waits(scheduler)
      return scheduler.waits if @accounts.any? { |account| account.queue && account.waiting > 0 }

      fibers = @accounts.flat_map { |account| account.holders.map(&:fiber) }
      scheduler.waits(fibers.size, fibers.to_h { |fiber| [fiber, true] }.compare_by_identity)
    end

    def row(account)
      counted = account.waits
      waiting = account.waiters.select(&:since) + in_queue(account.queue)
      { name: utf8(account.name.to_s), kind: account.kind, size: account.size,
        in_use: account.in_use, idle: account.idle, waiting: account.waiting,
        waits_total: counted&.waits,
        wait_seconds_total: counted&.seconds&.round(6), timeouts_total: counted&.timeouts,
        holders: holders(account, waiting.map(&:since).min), waiters: waiters(waiting) }
    end

    def holders(account, first)
      all = account.holders.reject { |holder| rests?(holder.fiber, account.rests) }
      longest(all.map { |holder| [held_since(holder, first), holder.fiber] }).map do |since, fiber|
        { fiber: fiber.object_id, name: @names[fiber], held_seconds: seconds(since),
          place: place(fiber) }
      end
    end

    def waiters(waiting)
      longest(waiting.map { |one| [one.since, one.fiber, one.place] }).map do |since, fiber, place|
        { fiber: fiber&.object_id, name: @names[fiber], waited_seconds: seconds(since),
          place: place ? utf8(place) : place(fiber) }
      end
    end

    def rests?(fiber, queue) = queue && @waits[fiber] && @waits[fiber][:blocker].equal?(queue)

    def in_queue(queue)
      waits = queue ? @all_waits.select { |one| one[:blocker].equal?(queue) } : []
      waits.map { |wait| Pools::Waiter.new(wait[:owner], @now - wait[:waited]) }
    end

    def held_since(holder, first)
      return holder.lease.since if holder.lease&.since

      own = @now - (@waits[holder.fiber]&.fetch(:waited) || 0)
      others = first && [first, holder.got].compact.max
      since = [own, others].compact.min
      holder.lease.since = since if holder.lease # for the next look
      since
    end

    def longest(rows) = rows.sort_by(&:first).first(EACH)
    def seconds(since) = [@now - since, 0.0].max.round(3)
    def place(fiber) = utf8(Dump.place(fiber.backtrace.to_a))
    def utf8(text) = text.b.force_encoding(Encoding::UTF_8).scrub
  end
end
