# frozen_string_literal: true

require "json"
require_relative "snapshot"

module NB
  class Server
    # A master's view of its workers at this moment.
    #
    # @api private
    class Overview
      # Seconds in which a worker has to answer any question; any thread of it may do so.
      PATIENCE = 2
      # How many requests and fibers that are asked for are worth another second: the answer is
      # large, and a loop that computes takes 0.1 s whenever its sender waits.
      PER_SECOND = 2000
      # The maximum. Who asks the master waits longer than that.
      MOST = 10
      # The values that are summed over the workers.
      SUMS = %i[connections accepted queued running].freeze
      private_constant :PATIENCE, :PER_SECOND, :MOST, :SUMS

      # @param workers [Array<WorkerProcess>]
      # @param old [Array<WorkerProcess>] of the master that this process was before USR2
      # @param size [Integer] the configured number of workers
      # @param draining [Boolean]
      def initialize(workers, old, size:, draining:)
        @workers = workers
        @old = old
        @size = size
        @draining = draining
      end

      # @return [Boolean] whether any worker accepts requests
      def ready? = !@draining && all.any?(&:ready?)

      # @return [Hash{Symbol=>Object}] for /stats
      def stats
        {size: @size, draining: @draining, workers: @workers.map(&:to_h),
         old_workers: @old.map(&:pid)}
      end

      # @param query [String, nil] as {Snapshot.detail} takes it
      # @return [Hash{Symbol=>Object}] the {Snapshot} of the master, with that of each worker
      # @raise [ArgumentError]
      # @scheduling may wait
      # @thread any except the main one, which receives the workers' answers
      def snapshot(query = nil)
        seconds = patience(Snapshot.detail(query))
        workers = all.map { |worker| Thread.new { describe(worker, query.to_s, seconds) } }
          .map(&:value)
        {**Snapshot.of_process, ready: ready?, draining: @draining, workers: workers, loop: nil,
         requests: [], fibers: [], pools: [], stalls: [], **Snapshot.resources,
         **SUMS.to_h { |name| [name, workers.sum { |worker| worker[name].to_i }] },
         http: workers.filter_map { |worker| worker[:http] }.reduce({}) { |all, one| add(all, one) }}
      end

      private

      def all = @old + @workers

      def add(all, one) = all.merge(one) { |_, a, b| a + b }

      def patience(detail)
        asked = %i[fibers requests].sum { |name| detail.fetch(name, Snapshot::DETAIL[name].first) }
        [PATIENCE + (asked / PER_SECOND.to_f), MOST].min
      end

      def describe(worker, query, seconds)
        own = {index: worker.index, pid: worker.pid, ready: worker.ready?,
               leaving: worker.leaving == true, report_age_seconds: worker.silent_for.round(3)}
        text = worker.channel&.ask(query, within: seconds)
        text ? JSON.parse(text, symbolize_names: true).merge(own) : own.merge(last_known(worker))
      end

      # According to its last report.
      def last_known(worker)
        known = worker.to_h
        {silent: true, memory_bytes: known[:rss_kb]&.*(1024), cpu_seconds: worker.cpu_seconds,
         requests: [], fibers: [], pools: [], stalls: [], **known.slice(*SUMS),
         http: known.key?(:requests) ? Snapshot.http(known) : nil}.compact
      end
    end
  end
end
