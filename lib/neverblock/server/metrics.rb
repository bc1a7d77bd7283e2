# frozen_string_literal: true

require "etc"
require_relative "../version"
require_relative "../sync/database_time"
require_relative "../sync/job_counts"
require_relative "../sync/labels"
require_relative "../sync/pools"
require_relative "../sync/task_names"

module NB
  class Server
    # The counters of a server's processes, with Prometheus' names and units. A process reads its
    # own numbers ({.read}); the master has the last ones of each worker ({Tally}).
    #
    # @api private
    module Metrics
      # Name => [type, meaning, the label that distinguishes its values]. The samples of a counter
      # have the suffix _total. docs/OBSERVE.md explains them.
      FAMILIES = {
        nb_build_info: [:gauge, "1, labelled with the versions"],
        nb_ready: [:gauge, "1 while the server accepts requests"],
        nb_workers: [:gauge, "Running worker processes"],
        nb_workers_wanted: [:gauge, "Configured worker processes"],
        nb_workers_started: [:counter, "Worker processes started"],
        nb_workers_died: [:counter, "Worker processes that failed or were killed"],
        nb_worker_ready: [:gauge, "1 while the worker accepts requests"],
        nb_worker_report_age_seconds:
          [:gauge, "Age of the worker's last report, and so of its numbers"],
        nb_http_requests: [:counter, "Finished requests, by class of status", :status],
        nb_http_refusals:
          [:counter, "Requests that the server refused without calling the application"],
        nb_http_rejections: [:counter, "Of the refusals: a full queue, or too long a wait in it"],
        nb_http_timeouts: [:counter, "Requests and connections ended by a time limit"],
        nb_http_resets: [:counter, "Connections that broke during a request or response"],
        nb_http_errors: [:counter, "Exceptions that the application did not rescue"],
        nb_http_request_bytes: [:counter, "Bytes received"],
        nb_http_response_bytes: [:counter, "Bytes sent"],
        nb_http_queue_seconds:
          [:histogram, "From a request's arrival (at the proxy, if known) to the application"],
        nb_http_application_seconds:
          [:histogram, "From the application's call to its complete response"],
        nb_http_first_byte_seconds:
          [:histogram, "From a request's arrival to the first byte of its response"],
        nb_http_requests_running: [:gauge, "Requests in the application"],
        nb_http_requests_queued: [:gauge, "Requests that wait for a fiber"],
        nb_http_connections: [:gauge, "Open connections"],
        nb_http_connections_accepted: [:counter, "Connections accepted"],
        nb_http_fibers: [:gauge, "Fibers for requests, running, waiting or idle"],
        nb_http_fibers_limit: [:gauge, "Maximum number of fibers for requests"],
        nb_http_body_bytes: [:gauge, "Space used by large request bodies", :place],
        nb_loop_turns: [:counter, "Turns of the loop: how often it asked the kernel"],
        nb_loop_switches: [:counter, "Switches between fibers"],
        nb_loop_waits: [:counter, "Waits of fibers, by what they waited for", :kind],
        nb_loop_lag_seconds: [:counter, "Delay of timers, in total"],
        nb_loop_lag_timers: [:counter, "Turns with a due timer, for the mean delay"],
        nb_loop_fibers: [:gauge, "Fibers of the loop; idle ones are in a pool", :state],
        nb_loop_waiting: [:gauge, "Fibers that wait, by what they wait for", :kind],
        nb_loop_timers: [:gauge, "Pending timers"],
        nb_tasks: [:gauge, "Running tasks, by name", :name],
        nb_pool_size: [:gauge, "Limit of a pool: connections, processes or fibers", :pool],
        nb_pool_in_use: [:gauge, "Of these, in use", :pool],
        nb_pool_idle: [:gauge, "Of these, idle", :pool],
        nb_pool_waiting: [:gauge, "Fibers, threads or blocks that wait for one", :pool],
        nb_pool_waits: [:counter, "Finished waits for one, successful or not", :pool],
        nb_pool_wait_seconds: [:counter, "Duration of these waits, in total", :pool],
        nb_pool_timeouts: [:counter, "Of these waits, ended by their timeout", :pool],
        nb_database_queries: [:counter, "Queries sent to a database", :adapter],
        nb_database_seconds: [:counter, "Time from a query to its answer, in total", :adapter],
        nb_jobs: [:counter, "Finished jobs of background queues, by outcome", :status],
        nb_jobs_running: [:gauge, "Running jobs of background queues"],
        nb_jobs_seconds: [:counter, "Duration of jobs, in total"],
        nb_offload_threads: [:gauge, "Native threads for what cannot wait in the loop"],
        nb_offload_queued: [:gauge, "Calls that wait for such a thread"],
        nb_gc_runs: [:counter, "Garbage collections", :kind],
        nb_gc_seconds: [:counter, "Time in the garbage collector"],
        nb_cpu_seconds: [:counter, "Processor time of the process, user and system"],
        nb_resident_memory_bytes: [:gauge, "Resident memory of the process"]
      }.freeze
      # Those read in a process that must not fall when a worker ends.
      LASTING = FAMILIES.filter_map { |name, (type)| name unless type == :gauge }.freeze
      # The kinds of waits, by those of {Scheduler#parked}.
      KINDS = {io: %i[io select], sleep: %i[sleep], block: %i[block], resolve: %i[resolve],
               offload: %i[offload process]}.freeze
      # Not 4 KiB everywhere: some 64-bit ARM and POWER kernels have pages of 16 or 64 KiB.
      PAGE_KB = Etc.sysconf(Etc::SC_PAGESIZE) / 1024
      # How many values of a label a worker and its predecessors have together, and the one for the
      # rest, as read from a worker's report.
      LABELS = 50
      REST = Labels::REST.to_sym
      private_constant :KINDS, :PAGE_KB, :LABELS, :REST

      module_function

      # @param stats [Hash] {Server#stats}
      # @param scheduler [Scheduler, nil] of the loop, if there is one
      # @param times [Hash{Symbol=>Array}] of {Core}
      # @return [Hash{Symbol=>Numeric, Hash, Array}] of this process, by name; an Array is a
      #   histogram: the counts of its buckets, then the sum
      def read(stats, scheduler, times)
        histograms = times.transform_keys { |name| :"nb_http_#{name}_seconds" }
        loop = scheduler ? of_loop(scheduler.stats) : {}
        loop[:nb_loop_waiting] = waiting(scheduler.parked) if scheduler
        http(stats).merge(histograms, loop, of_process, of_waits)
      end

      # @param readings [Hash{Integer=>Hash}] the results of {.read}, by worker
      # @return [Hash{Symbol=>Array}] by name: [labels, value] each
      def samples(readings)
        rows = readings.flat_map do |worker, reading|
          reading.flat_map { |name, value| labelled(name, {worker: worker}, value) }
        end
        info = [:nb_build_info, {version: NB::VERSION, ruby: RUBY_VERSION}, 1]
        [info, *rows].group_by(&:first).transform_values { |all| all.map { |_, *row| row } }
      end

      # @param total [Hash, nil] a result of {.read}; the other one is added to it
      # @return [Hash] the sum
      def add(total, other)
        return other unless total

        total.merge(other) { |_, one, two| sum(one, two) }
      end

      def sum(one, two)
        case one
        when Hash then two.each_with_object(one.dup) { |pair, all| count(all, *pair) }
        when Array then one.zip(two).map(&:sum)
        else one + two
        end
      end

      # Each process limits the values of a label; this limits those of all that succeed each other.
      def count(all, label, number)
        label = REST if !all.key?(label) && all.size >= LABELS
        all[label] = all.fetch(label, 0) + number
      end

      def labelled(name, labels, value)
        return [[name, labels, value]] unless value.is_a?(Hash)

        label = FAMILIES.fetch(name)[2]
        value.map { |text, number| [name, {**labels, label => text}, number] }
      end

      def http(stats)
        {nb_http_requests: by_status(stats),
         nb_http_refusals: stats[:refused], nb_http_rejections: stats[:rejected_503],
         nb_http_timeouts: stats[:timeouts], nb_http_resets: stats[:resets],
         nb_http_errors: stats[:errors], nb_http_request_bytes: stats[:request_bytes],
         nb_http_response_bytes: stats[:response_bytes], nb_http_requests_running: stats[:running],
         nb_http_requests_queued: stats[:queued], nb_http_connections: stats[:connections],
         nb_http_connections_accepted: stats[:accepted], nb_http_fibers: stats[:fibers],
         nb_http_fibers_limit: stats[:fibers_max],
         nb_http_body_bytes: {memory: stats[:bodies_memory_bytes], file: stats[:bodies_file_bytes]}}
      end

      # `other`: not our response, as after a hijack or for a client that had gone; or beyond 5xx.
      def by_status(stats)
        classes = (1..5).to_h { |digit| [:"#{digit}xx", stats[:"responses_#{digit}xx"]] }
        classes.merge(other: stats[:requests] - classes.each_value.sum)
      end

      # @return [Hash{Symbol=>Numeric, Hash}] from {Scheduler#stats}
      def of_loop(stats)
        {nb_loop_turns: stats[:polls], nb_loop_switches: stats[:switches],
         nb_loop_waits: {io: stats[:io_waits], sleep: stats[:sleep_waits],
                         block: stats[:block_waits], resolve: stats[:resolves],
                         offload: stats[:offloads]},
         nb_loop_lag_seconds: stats[:lag_sum], nb_loop_lag_timers: stats[:lag_count],
         nb_loop_fibers: fibers(stats), nb_loop_timers: stats[:timers],
         nb_offload_threads: stats[:offload_threads], nb_offload_queued: stats[:offload_queued]}
      end

      # A ready fiber has not left its wait yet, and an idle one waits, too. At most one runs;
      # nb_cpu_seconds shows its cost.
      def fibers(stats)
        ready, idle = stats.values_at(:ready, :idle_fibers)
        {ready: ready, idle: idle, waiting: [stats[:parked] - idle - ready, 0].max}
      end

      # @param parked [Hash] {Scheduler#parked}
      # @return [Hash{Symbol=>Integer}] how many fibers wait now, by the kinds of nb_loop_waits
      def waiting(parked)
        counts = KINDS.transform_values { |kinds| kinds.sum { |kind| parked[kind] } }
        {**counts, other: parked.except(:ready, :idle).values.sum - counts.values.sum}
      end

      def of_process
        counts = GC.stat
        {nb_tasks: TaskNames.counts,
         nb_gc_runs: {minor: counts[:minor_gc_count], major: counts[:major_gc_count]},
         nb_gc_seconds: GC.total_time / 1e9,
         nb_cpu_seconds: Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID),
         nb_resident_memory_bytes: resident_kb * 1024}
      end

      # What the program waits for, apart from the loop's own waits.
      def of_waits
        Pools.counts.transform_keys { |name| :"nb_pool_#{name}" }
          .merge(nb_database_queries: DatabaseTime.queries,
                 nb_database_seconds: DatabaseTime.seconds, **of_jobs)
      end

      def of_jobs
        jobs = JobCounts.to_h
        {nb_jobs: jobs[:ended], nb_jobs_running: jobs[:running], nb_jobs_seconds: jobs[:seconds]}
      end

      # @return [Integer] this process's resident memory in KiB
      def resident_kb
        Integer(File.read("/proc/self/statm").split[1]) * PAGE_KB
      rescue Errno::ENOENT # not Linux
        `ps -o rss= -p #{Process.pid}`.to_i
      end

      private_class_method :sum, :labelled, :count, :http, :fibers, :of_process, :of_waits, :of_jobs
    end
  end
end
