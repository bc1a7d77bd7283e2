# frozen_string_literal: true

require_relative "../errors"
require_relative "../fiber_state"
require_relative "check"
require_relative "inheritance"
require_relative "pools"

module NB
  # At most `size` fibers that run blocks; blocks that find all of them busy wait in a queue.
  #
  # The idea and the name are those of NeverBlock 0.1 (2008): a fiber costs more to make than to
  # keep. Fibers are made when they are needed and run one block after the other. When there is
  # nothing to do they stay, without keeping our loop from ending. Other schedulers know no such
  # wait; there the fibers are let go when the whole pool has nothing to do.
  #
  # Each block starts with no fiber-locals (`Thread.current[:x]`), no attributes of frameworks (such
  # as ActiveSupport's) and, from Ruby 3.2 on, with no fiber storage (`Fiber[:x]`): nothing comes to
  # it from the block before, and from the one who spawned it only the trace that it belongs to (of
  # OpenTelemetry and the like).
  #
  # @example 1,000 requests, at most 50 at a time
  #   pool = NB::FiberPool.new(50)
  #   1_000.times { |i| pool.spawn { Net::HTTP.get(URI("http://127.0.0.1:8080/#{i}")) } }
  #   pool.wait
  class FiberPool
    # Those that work now: they have a scheduler and a queue in common. The pool gets a new crew
    # after each rest, so one loop after the other may use it.
    class Crew
      # Fields: `jobs` closes when the crew is let go; `starting` has the blocks whose fiber has not
      # begun, `fibers` the fibers that have, with the time at which each got its last {Late} block
      # or nil, `working` those with a block, `late` what waits in `jobs`, each a Hash for its O(1)
      # delete; `limit` sinks below the size of the pool when the system has no room; `resting`: see
      # FiberPool#rest.
      attr_reader :scheduler, :pid, :jobs, :starting, :fibers, :working, :late
      attr_accessor :resting, :limit

      # @param scheduler [Object] of the thread these fibers live in
      # @param limit [Integer] the most fibers
      def initialize(scheduler, limit)
        @scheduler = scheduler
        @pid = Process.pid
        @jobs = Thread::Queue.new
        @starting, @fibers, @working, @late = Array.new(4) { {}.compare_by_identity }
        @resting = 0
        @limit = limit
      end

      # @return [Integer] fibers, also those that have not begun
      def count = fibers.size + starting.size

      # @return [Integer] blocks that are not in the queue any more
      def busy = working.size + starting.size

      # @return [Integer] how many fibers will look for a job that is not in the queue yet
      def free = jobs.num_waiting + resting - jobs.length

      # @return [Boolean] whether all that was spawned has ended
      def done? = busy.zero? && jobs.empty?

      # What was to be raised in this fiber at its next wait was meant for another job than the
      # next one.
      def forget_interrupts
        scheduler.forget_interrupts if scheduler.respond_to?(:forget_interrupts)
      end

      # @return [Boolean] whether these are fibers of the process that forked this one
      def elsewhere? = @pid != Process.pid

      # @return [Boolean] whether fibers may wait for jobs without keeping the loop going
      def keeps? = scheduler.respond_to?(:idle)
    end
    # A block that finds all fibers busy, and since when it waits.
    Late = Struct.new(:block, :since)
    private_constant :Crew, :Late

    # @return [Integer] the most fibers there will be
    attr_reader :size
    # @return [String] what {NB.pools} and /metrics call it
    attr_reader :name
    # @return [WaitCount] of blocks that waited for a fiber; see {Pools}
    # @api private
    attr_reader :waits

    # @param size [Integer] the most fibers, 1 or more
    # @param queue [Integer, nil] the most blocks that wait for a fiber, 0 or more; nil: no limit
    # @param on_error [#call, nil] takes what a block raised; nil: it is written to stderr
    # @param name [String, nil] for {NB.pools} and `nb_pool_…` in /metrics; nil: the line of the
    #   program that makes the pool
    # @raise [ArgumentError] if one of them is something else
    def initialize(size = 50, queue: nil, on_error: nil, name: nil)
      @size = Check.count("size", size)
      @queue_limit = queue && Check.count("queue:", queue, min: 0)
      @on_error = on_error.nil? ? method(:report) : Check.callable("on_error:", on_error)
      @name = name ? name.to_s : Pools.place
      @waits = Pools.wait_count(@name)
      Pools.add(self)
    end

    # Runs the block in a fiber of this pool: at once if a new one is made for it, at the next
    # turn of the loop if one is free, else when those before it have had theirs.
    #
    # @yield its value is dropped; what it raises is reported and harms no other block
    # @return [self]
    # @raise [NB::QueueFullError] if all fibers are busy and the queue is at its limit
    # @raise [NB::ClosedError] after {#close}
    # @raise [NB::NoSchedulerError] if this thread has no scheduler
    # @raise [NB::WrongThreadError] if fibers of another thread's scheduler are at work
    # @raise [FiberError] if the system has no room for even one fiber
    # @scheduling never waits, but the block may run until its own first wait
    def spawn(&block) = take(Inheritance.trace(Check.block("FiberPool#spawn", block)))

    # As {#spawn}, for a block that does not belong to the trace of the one who spawns it.
    #
    # @api private
    def spawn_apart(&block) = take(block)

    # Waits until every block has ended.
    #
    # @return [self]
    # @raise [FiberError] in a block of this pool, which would wait for itself
    # @scheduling may wait
    def wait
      raise FiberError, "a block would wait for itself" if crew&.fibers&.key?(Fiber.current)

      unless crew.nil? || crew.done?
        gate = (@gate ||= Thread::Queue.new)
        gate.pop until gate.closed?
      end
      self
    end

    # Takes no more blocks. Those already taken run to their end; `close.wait` waits for them. Then
    # its fibers end, too.
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

    # @return [Array<Fiber>] the fibers there are now, busy or free; at most {#size}
    def fibers = crew ? crew.fibers.keys : []

    # @return [Hash{Symbol=>Integer}] `size`, `fibers` (there are now), `busy` and `queued` (blocks)
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
        waiters: crew ? crew.late.keys.map { |one| waiter(one) } : []
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

    # A forked child finds the crew of its parent, and leaves it alone.
    def crew = (@crew unless @crew&.elsewhere?)

    def crew_here
      scheduler = Fiber.scheduler
      raise NoSchedulerError, "a fiber pool needs a scheduler: NB.run { }" unless scheduler
      return crew if crew && crew.scheduler.equal?(scheduler)
      raise WrongThreadError, "the fiber pool is at work in another thread" if crew

      @gate = nil
      @crew = Crew.new(scheduler, @size)
    end

    # For the time when a fiber is free.
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

    # What a late one waits for is over.
    def begin_late(crew, late)
      crew.late.delete(late)
      start = now
      crew.fibers[Fiber.current] = start
      @waits.count(start - late.since)
      late.block
    end

    def waiter(late)
      path, line = late.block.source_location
      Pools::Waiter.new(nil, late.since, path ? "#{path}:#{line}" : "a method in C")
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # A timeout may strike the caller at any step: each can be taken back, and twice.
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

    def work(crew, job, place)
      crew.fibers[Fiber.current] = nil
      crew.working[Fiber.current] = true
      crew.starting.delete(place)
      while job
        perform(crew, job)
        break if crew.elsewhere? # the block has forked: the jobs are the parent's

        open_gate if crew.done?
        release(crew) if @closed && crew.done?
        job = next_job(crew)
        crew.working[Fiber.current] = true if job
        job = begin_late(crew, job) if job.is_a?(Late)
      end
    rescue Cancelled
      nil # the loop is closing, or somebody is tired of this block: this fiber ends
    ensure
      crew.fibers.delete(Fiber.current)
      release(crew) if crew.count.zero? && !crew.elsewhere?
    end

    def perform(crew, job)
      crew.forget_interrupts # one that came while the fiber was free
      FiberState.clear
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

    # @return [Proc, nil] nil when the crew is let go
    def next_job(crew)
      return crew.scheduler.idle { crew.jobs.pop } if crew.keeps?

      rest(crew) if crew.done?
      crew.jobs.pop
    end

    # Nothing to do: gives those who may be about to spawn one turn of the loop, then lets all go.
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

    # All who wait for the end of what was spawned may go on.
    def open_gate
      @gate&.close
      @gate = nil
    end

    def warn_of_limit(crew, error)
      crew.limit = crew.count
      return if @warned

      @warned = true
      warn("neverblock: a fiber pool of #{@size} has #{crew.count} fibers and the system has no " \
           "room for more (#{error.message}). Further blocks wait in its queue. A fiber takes " \
           "two memory mappings#{mapping_limit}: raise that with " \
           "`sysctl -w vm.max_map_count=262144`, or make the pool smaller.", uplevel: 5)
    end

    def mapping_limit
      ", vm.max_map_count is #{File.read("/proc/sys/vm/max_map_count").strip}"
    rescue SystemCallError
      "" # not Linux
    end

    def report(error)
      $stderr.write("#{inspect}: a block raised:\n#{error.full_message}")
    end
  end
end
