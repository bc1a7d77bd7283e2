# frozen_string_literal: true

require_relative "../loop/dump"
require_relative "../loop/subject"
require_relative "../sync/pools"
require_relative "../sync/task_names"
require_relative "metrics"
require_relative "text"

module NB
  class Server
    # Everything a process can say about itself at one moment: `GET /snapshot`. A thread takes it,
    # so it works while the loop stands still, too. It contains paths and lines of the program, but
    # no queries, parameters, header fields, bodies or variables.
    #
    # It lets other threads run every few fibers, so a loop that soon waits is held up for a few
    # milliseconds at most, unless the snapshot's objects bring on a garbage collection.
    #
    # @api private
    class Snapshot
      # How much is included: the default, and the allowed range. The fibers of included requests
      # come on top.
      DETAIL = {fibers: [200, 0..100_000], requests: [200, 0..100_000], frames: [12, 0..200]}.freeze
      # How many frames of a backtrace are searched for the program's line.
      DEPTH = 100
      # How many characters of a path are included.
      PATH_LENGTH = 500
      # After this many fibers other threads get a turn: about a millisecond.
      TURN = 16
      # Seconds of all these turns: code that computes takes 0.1 s each time, and somebody waits for
      # the snapshot.
      TURNS = 0.2
      STARTED = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      private_constant :DEPTH, :PATH_LENGTH, :TURN, :TURNS, :STARTED

      class << self
        # @param query [String, nil] `fibers=500&requests=500&frames=40`
        # @return [Hash{Symbol=>Integer}] of {DETAIL}
        # @raise [ArgumentError]
        def detail(query)
          query.to_s.split("&").to_h do |pair|
            name, value = pair.split("=", 2)
            _, range = DETAIL[name&.to_sym]
            number = Integer(value, 10, exception: false) if value
            raise ArgumentError, "snapshot: #{name} must be #{words(range)}, got: #{value}" unless
              range&.cover?(number || -1)

            [name.to_sym, number]
          end
        end

        # @param since [Float] when it began to serve, by the monotonic clock
        # @return [Hash{Symbol=>Object}] of this process, with a loop or without
        def of_process(since = STARTED)
          {time: Time.now.to_f.round(3), pid: Process.pid, version: VERSION, ruby: RUBY_VERSION,
           uptime_seconds: (Process.clock_gettime(Process::CLOCK_MONOTONIC) - since).round(3)}
        end

        # @return [Hash{Symbol=>Numeric, Hash}]
        def resources
          gc = GC.stat
          {memory_bytes: Metrics.resident_kb * 1024,
           gc: {minor: gc[:minor_gc_count], major: gc[:major_gc_count],
                seconds: (GC.total_time / 1e9).round(6), live_objects: gc[:heap_live_slots],
                allocated_objects: gc[:total_allocated_objects]},
           cpu_seconds: Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID).round(6)}
        end

        # @return [Array<Hash>] what stopped the loops of this process, the latest first
        def stalls
          all = Native.stalls.map do |words, numbers|
            place, callee, doing = words
            count, longest, ago = numbers
            {place: Text.utf8(place || "an unknown place"), method: Text.utf8(callee),
             doing: Text.utf8(doing), count: count, longest_ms: (longest * 1000).round,
             last_seconds_ago: ago.round(1)}
          end
          all.sort_by { |stall| stall[:last_seconds_ago] }
        end

        # @param stats [Hash] {Server#stats}
        # @return [Hash{Symbol=>Integer}] responses by class of status, and failures
        def http(stats)
          {**Metrics.by_status(stats), requests: stats[:requests], errors: stats[:errors],
           refused: stats[:refused], rejected: stats[:rejected_503], timeouts: stats[:timeouts],
           resets: stats[:resets]}
        end

        private

        def words(range)
          range ? "#{range.begin} to #{range.end}" : "one of #{DETAIL.keys.join(" ")}"
        end
      end

      # @param server [Server, nil] nil: only the loop is described
      # @param scheduler [Scheduler, nil]
      # @param detail of {DETAIL}
      def initialize(server, scheduler, **detail)
        @server = server
        @scheduler = scheduler
        @detail = DETAIL.to_h { |name, (default)| [name, detail.fetch(name, default)] }
        @turn = 0
        @given = 0.0
      end

      # @return [Hash{Symbol=>Object}]
      # @scheduling never waits
      # @thread any
      def to_h
        {**Snapshot.of_process(@server&.since || STARTED), ready: @server&.ready?,
         draining: @server&.draining?, workers: [], loop: loop_stats, **told,
         pools: pools, jobs: JobCounts.to_h,
         stalls: Snapshot.stalls, **Snapshot.resources, **served}
      end

      private

      def told
        requests = @server ? @server.running : []
        @owners = {}.compare_by_identity
        requests.each { |env, fiber,| @owners[fiber] = env }
        first = requests.first(@detail[:requests])
        fibers = told_fibers(first)
        {requests: first.map { |request| describe_request(*request) },
         requests_left_out: requests.size - first.size, fibers: fibers,
         fibers_left_out: [count - fibers.size, 0].max}
      end

      def told_fibers(requests)
        @names = FiberNames.all.to_h.compare_by_identity.merge!(TaskNames.by_fiber)
        @stories = {}.compare_by_identity
        asked = {}.compare_by_identity
        requests.each { |_, fiber,| asked[fiber] = true }
        waits = @scheduler ? @scheduler.waits(asked.size + @detail[:fibers], asked) : []
        [running, *waits].compact.map { |wait| @stories[wait[:owner]] = describe(wait) }
      end

      # The fiber that the loop runs.
      def running
        return @running if defined?(@running)

        fiber = @scheduler&.current
        runs = fiber&.alive? && !@scheduler.waiting?(fiber)
        @running = ({fiber: fiber, owner: fiber} if runs)
      end

      def describe(wait)
        frames, place = trace(wait[:fiber])
        ready = wait[:ready]
        waits = wait[:kind] && !ready
        {id: wait[:owner].object_id, name: name(wait[:owner]),
         state: waits ? "waiting" : (ready && "ready") || "running", kind: wait[:kind],
         waits_for: (Text.utf8(subject(wait)) if waits),
         waited_seconds: wait[:waited]&.round(3), timeout_seconds: wait[:timeout]&.round(3),
         place: place, backtrace: frames}
      end

      # Fibers that wait for a pool wait in a sleep, or in a queue.
      def subject(wait)
        @awaited ||= Pools.awaited
        pool = wait.values_at(:owner, :fiber, :blocker).filter_map { |one| @awaited[one] }.first
        pool ? "pool #{pool}" : Subject.of(wait)
      end

      # Holders and waiters that are requests have their names.
      def pools
        names = @owners.to_h { |fiber, _| [fiber.object_id, fiber] }
        NB.pools(@scheduler).each do |pool|
          [*pool[:holders], *pool[:waiters]].each do |one|
            fiber = names[one[:fiber]] and one[:name] = name(fiber)
          end
        end
      end

      def name(fiber)
        env = @owners[fiber] or return @names[fiber]
        "#{Text.utf8(env["REQUEST_METHOD"])} #{path(env)}"
      end

      def describe_request(env, fiber, age)
        story = @stories[fiber]
        frames = story ? story[:backtrace] : trace(fiber).first
        {id: env.object_id, method: Text.utf8(env["REQUEST_METHOD"]), path: path(env),
         age_seconds: age.round(3), waits_for: story && story[:waits_for],
         waited_seconds: story && story[:waited_seconds], fiber: fiber.object_id, backtrace: frames}
      end

      # The path that the client sent, even while an application runs that is mounted in another.
      def path(env)
        text = Text.utf8(env.values_at("SCRIPT_NAME", "PATH_INFO").map { |part| part.to_s.b }.join)
        text.size > PATH_LENGTH ? "#{text[0, PATH_LENGTH]}…" : text
      end

      # @return [Array(Array<String>, String)] some frames, and the program's line
      def trace(fiber)
        give_way if ((@turn += 1) % TURN).zero? && @given < TURNS
        frames = Native.user_frames(fiber.backtrace(0, DEPTH))
        [frames.first(@detail[:frames]).map { |frame| Text.utf8(frame) },
         Text.utf8(Dump.place(frames))]
      end

      def give_way
        began = now
        Thread.pass
        @given += now - began
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def stats = @stats ||= @scheduler&.stats

      # The fibers to include, before the limit.
      def count
        return 0 unless @scheduler

        stats[:parked] - parked[:idle] + (running ? 1 : 0)
      end

      def parked = @parked ||= @scheduler.parked

      def loop_stats
        return unless @scheduler

        metrics = Metrics.of_loop(stats)
        {backend: stats[:backend], turns: stats[:polls], switches: stats[:switches],
         lag_seconds_total: stats[:lag_sum].round(6), lag_timers_total: stats[:lag_count],
         lag_max_seconds: stats[:lag_max].round(6), stands_seconds: stats[:turning].round(3),
         fibers: {running: running ? 1 : 0, **metrics[:nb_loop_fibers]},
         waits: metrics[:nb_loop_waits], waiting: Metrics.waiting(parked), timers: stats[:timers],
         offload: {threads: stats[:offload_threads], queued: stats[:offload_queued]}}
      end

      def served
        return {} unless @server

        stats = @server.stats
        {connections: stats[:connections], accepted: stats[:accepted], http: Snapshot.http(stats),
         queued: stats[:queued], running: stats[:running], fibers_max: stats[:fibers_max]}
      end
    end
  end
end
