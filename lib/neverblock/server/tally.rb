# frozen_string_literal: true

require_relative "metrics"

module NB
  class Server
    # What a cluster's workers have counted, including those that have ended: a successor continues
    # the numbers of its predecessor. The master's thread adds workers, the control socket's reads;
    # one lock makes sure that each worker counts exactly once.
    #
    # @api private
    class Tally
      # @param text [String, nil] {#to_json} of the master that this process was; nil, or what is
      #   none: all begin at 0
      def initialize(text = nil)
        was = parse(text) || {ended: [], gone: 0, died: 0}
        @ended = was[:ended].to_h { |place, counted| [place, counted.slice(*Metrics::LASTING)] }
        @gone, @died = was.values_at(:gone, :died)
        @inherited = was.fetch(:workers, []).to_h
        @lock = Mutex.new
      end

      # @param workers [Array<WorkerProcess>] the living ones
      # A master has loaded JSON; in a trap handler, nothing can be required.
      #
      # @return [String] the numbers of these and of those that have ended
      def to_json(workers)
        JSON.generate({ended: @ended.to_a, gone: @gone, died: @died,
                       workers: workers.map { |worker| [worker.pid, worker.metrics] }})
      end

      # @return [Hash] the worker's last report to the previous master
      def of_worker(pid) = @inherited.fetch(pid, {})

      # A worker has ended. The block removes it from those that {#samples} gets.
      #
      # @param worker [WorkerProcess]
      # @param failed [Boolean]
      def ended(worker, failed:)
        @lock.synchronize do
          lasting = worker.metrics.slice(*Metrics::LASTING)
          @ended[worker.index] = Metrics.add(@ended[worker.index], lasting)
          @gone += 1
          @died += 1 if failed
          yield
        end
      end

      # @param wanted [Integer] the configured number of workers
      # @param ready [Boolean] whether any worker accepts requests
      # @yieldreturn [Array<WorkerProcess>] the living workers
      # @return [Hash{Symbol=>Array}] for {Exposition#text}
      def samples(wanted:, ready:)
        @lock.synchronize do
          workers = yield
          readings = workers.reduce(@ended) do |all, worker|
            all.merge(worker.index => Metrics.add(all[worker.index], worker.metrics))
          end
          Metrics.samples(readings).merge(of_cluster(workers, wanted, ready))
        end
      end

      private

      def parse(text)
        return unless text

        require "json"
        begin
          JSON.parse(text, symbolize_names: true)
        rescue JSON::ParserError
          nil
        end
      end

      def of_cluster(workers, wanted, ready)
        {nb_ready: [[{}, ready ? 1 : 0]], nb_workers: [[{}, workers.size]],
         nb_workers_wanted: [[{}, wanted]], nb_workers_started: [[{}, @gone + workers.size]],
         nb_workers_died: [[{}, @died]],
         nb_worker_ready: by_place(workers) { |all| all.any?(&:ready?) ? 1 : 0 },
         nb_worker_report_age_seconds:
           by_place(workers) { |all| all.map(&:silent_for).max.round(3) }}
      end

      # A worker and its successor have the same index for a while.
      def by_place(workers)
        workers.group_by(&:index).map { |index, all| [{worker: index}, yield(all)] }
      end
    end
  end
end
