# frozen_string_literal: true

require_relative "../error_report"
require_relative "../errors"
require_relative "../fiber_state"
require_relative "check"
require_relative "inheritance"
require_relative "pools"
require_relative "fiber_pool/crew"

module NB
  # Runs blocks in at most `size` fibers. When all are busy, further blocks wait in a queue.
  #
  # The idea and the name come from NeverBlock 0.1 (2008): keeping a fiber is cheaper than making
  # one. Fibers are made when needed and run one block after the other. Idle fibers stay, and do not
  # keep our loop from ending. Other schedulers have no such wait, so there the fibers end when the
  # whole pool is idle.
  #
  # Each block starts with no fiber-locals (`Thread.current[:x]`), no attributes of frameworks (such
  # as ActiveSupport's) and, from Ruby 3.2 on, no fiber storage (`Fiber[:x]`). It gets nothing from
  # the previous block, and from the code that spawned it only the trace it belongs to (of
  # OpenTelemetry and the like).
  #
  # @example 1,000 requests, at most 50 at a time
  #   pool = NB::FiberPool.new(50)
  #   1_000.times { |i| pool.spawn { Net::HTTP.get(URI("http://127.0.0.1:8080/#{i}")) } }
  #   pool.wait
  class FiberPool
    # @return [Integer] the maximum number of fibers
    attr_reader :size
    # @return [String] its name in {NB.pools} and /metrics
    attr_reader :name
    # @return [WaitCount] of blocks that waited for a fiber; see {Pools}
    # @api private
    attr_reader :waits

    # @param size [Integer] the maximum number of fibers, 1 or more
    # @param queue [Integer, nil] how many blocks may wait for a fiber, 0 or more; nil: no limit
    # @param on_error [#call, nil] gets what a block raised; nil: it is written to stderr
    # @param name [String, nil] for {NB.pools} and `nb_pool_…` in /metrics; nil: the line of the
    #   program that makes the pool
    # @raise [ArgumentError] for an invalid argument
    def initialize(size = 50, queue: nil, on_error: nil, name: nil)
      @size = Check.count("size", size)
      @queue_limit = queue && Check.count("queue:", queue, min: 0)
      @on_error = on_error.nil? ? method(:report) : Check.callable("on_error:", on_error)
      @name = name ? name.to_s : Pools.place
      @waits = Pools.wait_count(@name)
      Pools.add(self)
    end

    # Runs the block in a fiber of this pool: at once if a new fiber is made for it, at the next
    # turn of the loop if one is free, otherwise after the blocks that wait before it.
    #
    # @yield its value is dropped; an exception is reported and affects no other block
    # @return [self]
    # @raise [NB::QueueFullError] if all fibers are busy and the queue is at its limit
    # @raise [NB::ClosedError] after {#close}
    # @raise [NB::NoSchedulerError] if this thread has no scheduler
    # @raise [NB::WrongThreadError] while the fibers work under another thread's scheduler
    # @raise [FiberError] if the system has no room for even one fiber
    # @scheduling never waits, but the block may run until its own first wait
    def spawn(&block) = take(Inheritance.trace(Check.block("FiberPool#spawn", block)))

    # The same as {#spawn}, for a block that does not belong to the caller's trace.
    #
    # @api private
    def spawn_apart(&block) = take(block)

    # Waits until every block has ended.
    #
    # @return [self]
    # @raise [FiberError] in a block of this pool, because it would wait for itself
    # @scheduling may wait
    def wait
      raise FiberError, "a block would wait for itself" if crew&.fibers&.key?(Fiber.current)

      unless crew.nil? || crew.done?
        gate = (@gate ||= Thread::Queue.new)
        gate.pop until gate.closed?
      end
      self
    end

    # Takes no more blocks. Those already taken run to their end (`close.wait` waits for them); then
    # the fibers end.
    #
    # @return [self]
    # @scheduling never waits
    def close
      @closed = true
      crew&.then { |crew| release(crew) if crew.done? }
      self
    end

    # @return [Boolean] whether {#close} was called
    def closed? = @closed ? true : false

    # @return [Array<Fiber>] the existing fibers, busy or free; at most {#size}
    def fibers = crew ? crew.fibers.keys : []

    # @return [Hash{Symbol=>Integer}] `size`, `fibers` (existing), `busy` and `queued` (blocks)
    def stats
      { size: @size, fibers: fibers.size, busy: crew&.busy || 0, queued: crew&.jobs&.length || 0 }
    end

    # @return [Pools::Account]
    # @api private
    def account
      crew = self.crew
      fibers = crew ? crew.fibers.to_a : []
      busy, queued = stats.values_at(:busy, :queued)
      Pools::Account.new(
        name: @name, kind: "NB::FiberPool", size: @size, in_use: busy, waiting: queued,
        idle: [fibers.size - busy, 0].max, waits: @waits, rests: crew&.jobs,
        holders: fibers.map { |fiber, got| Pools::Holder.new(fiber, got) },
        waiters: crew ? crew.late.keys.map(&:account) : []
      )
    end

    # @return [String] e.g. `#<NB::FiberPool size=50 fibers=3 busy=3 queued=0>`
    def inspect
      "#<#{self.class.name} #{stats.map { |key, value| "#{key}=#{value}" }.join(" ")}>"
    end

    private

    def take(block)
      raise ClosedError, "the fiber pool is closed" if @closed

      crew = crew_here
      if crew.free.positive?
        crew.jobs.push(block)
      elsif crew.count >= crew.limit
        enqueue(crew, block)
      else
        start(crew, block)
      end
      self
    end

    # A forked child finds its parent's crew here, and leaves it alone.
    def crew = (@crew unless @crew&.elsewhere?)

    def crew_here
      scheduler = Fiber.scheduler
      raise NoSchedulerError, "a fiber pool needs a scheduler: NB.run { }" unless scheduler
      return crew if crew && crew.scheduler.equal?(scheduler)
      raise WrongThreadError, "the fiber pool is at work in another thread" if crew

      @gate = nil
      @crew = Crew.new(scheduler, @size)
    end

    # Queues the block until a fiber is free.
    def enqueue(crew, block)
      refuse(crew) if @queue_limit && crew.jobs.length >= @queue_limit
      late = Late.new(block, now)
      crew.jobs.push(late)
      crew.late[late] = true
    end

    def refuse(crew)
      raise QueueFullError, "#{crew.busy} of #{@size} fibers busy, #{crew.jobs.length} blocks " \
                            "waiting of at most #{@queue_limit}: spawn slower, or raise queue: " \
                            "or size"
    end

    # The wait of a late block is over.
    def begin_late(crew, late)
      crew.late.delete(late)
      start = now
      crew.fibers[Fiber.current] = start
      @waits.count(start - late.since)
      late.block
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # A timeout may strike the caller at any step: each step can be undone, even twice.
    def start(crew, block)
      place = Object.new
      crew.starting[place] = true
      Fiber.schedule { work(crew, block, place) }
      started = true
    rescue FiberError => error
      crew.starting.delete(place)
      raise if crew.count.zero? # nobody would ever take the block out of the queue

      warn_of_limit(crew, error)
      enqueue(crew, block)
    ensure
      forget(crew, place) unless started # interrupted
    end

    # Nobody will run the block that was to start there.
    def forget(crew, place)
      crew.starting.delete(place)
      open_gate if crew.done?
    end

    # @param job [Proc, nil] nil: one that waits
    def work(crew, job, place)
      crew.fibers[Fiber.current] = nil
      crew.working[Fiber.current] = true if job
      crew.starting.delete(place)
      job ||= take_job(crew)
      while job
        perform(crew, job)
        break if crew.elsewhere? # the block has forked, and the jobs are the parent's

        end_if_done(crew)
        job = take_job(crew)
      end
    rescue Cancelled
      nil # the loop is closing, or the block was cancelled: this fiber ends
    ensure
      crew.fibers.delete(Fiber.current)
      leave(crew, $!) unless crew.elsewhere?
    end

    # This fiber ends.
    def leave(crew, error)
      replace(crew) if crew.free.negative? && crew.goes_on?(error)
      if crew.count.zero? || (crew.done? && !crew.keeps?)
        release(crew)
      else
        end_if_done(crew)
      end
    end

    def end_if_done(crew)
      return unless crew.done?

      open_gate
      release(crew) if @closed
    end

    # A block has ended its fiber: what waits in the queue gets another one. After a Fiber#kill,
    # each switch ends this method; then it was in vain only if no fiber has begun.
    def replace(crew)
      place = Object.new
      crew.starting[place] = true
      Fiber.schedule { work(crew, nil, place) }
      tried = true
    rescue FiberError
      tried = true # no room; the others go on, if there are any
    ensure
      vain = crew.starting.delete(place)
      replace(crew) if vain && !tried
    end

    def take_job(crew)
      job = next_job(crew)
      crew.working[Fiber.current] = true if job
      job.is_a?(Late) ? begin_late(crew, job) : job
    end

    def perform(crew, job)
      crew.forget_interrupts # that arrived while the fiber was free
      FiberState.clear
      crew.own_matches(job)
      call(crew, job)
    rescue *FAILURES => error
      @on_error.call(error) # the fiber lives on
    ensure
      crew.working.delete(Fiber.current)
    end

    def call(crew, job)
      job.call
    ensure
      crew.forget_interrupts
      FiberState.leave
    end

    # @return [Proc, nil] nil when the crew is dismissed
    def next_job(crew)
      return crew.scheduler.idle { crew.jobs.pop } if crew.keeps?

      rest(crew) if crew.done?
      crew.jobs.pop
    end

    # Idle: gives code that may be about to spawn one turn of the loop, then dismisses the crew.
    def rest(crew)
      crew.resting += 1
      sleep(0)
    ensure
      crew.resting -= 1
      release(crew) if crew.done?
    end

    def release(crew)
      lost = crew.jobs.length
      crew.jobs.close.clear
      warn("neverblock: #{lost} blocks of a fiber pool never ran: its fibers ended") if lost > 0
      return unless @crew.equal?(crew)

      @crew = nil
      open_gate
    end

    # Resumes all who wait for the end of what was spawned.
    def open_gate
      @gate&.close
      @gate = nil
    end

    def warn_of_limit(crew, error)
      crew.limit = crew.count
      return if @warned

      @warned = true
      warn("neverblock: a fiber pool of #{@size} #{crew.shortage(error)}", uplevel: 5)
    end

    def report(error)
      ErrorReport.write("#{inspect}: a block raised", error)
    end
  end
end
