# frozen_string_literal: true

require "etc"
require_relative "connection_pool"
require_relative "forked_worker"

module NB
  # Forked processes that apply one block to what they are sent: Ruby code on all processors, while
  # the fiber that asks waits like for any other I/O.
  #
  # The block is given once, here. A process is forked when it is first needed, and holds what the
  # block could see at that moment; later changes do not reach it (see {#reload}). Then only
  # arguments, values and exceptions travel, as Marshal data: strings, numbers, arrays, hashes,
  # structs, objects of classes known to both; no procs, no IO, no connections. {NB.in_process}
  # takes any block, for the price of one fork each: 1 to 2 ms in a fresh process, ten times that in
  # one that has had thousands of fibers, whose stacks the kernel has to copy the map of.
  #
  # Like each forked process, it has a copy of the sockets that were open then, as long as it lives:
  # the other end of one is told of its end by `shutdown`, not by `close` alone.
  #
  # A process that dies is replaced; a fiber waiting for it gets a {NB::ProcessError}. A call that
  # is cancelled or times out kills its process in the middle of the work, and that is replaced too.
  #
  # @example
  #   digests = NB::ProcessPool.new(size: 4) { |path| Digest::SHA256.file(path).hexdigest }
  #   NB.map(Dir["*.iso"], concurrency: digests.size) { |path| digests.call(path) }
  class ProcessPool
    # A process is known to the pool before there is one.
    class Workers < ConnectionPool
      private

      def kind = "NB::ProcessPool"

      def make(place)
        super
        place.thing.start
      end
    end
    private_constant :Workers

    # @return [Integer] the most processes there will be
    attr_reader :size

    # @param size [Integer] the most processes, 1 or more
    # @param timeout [Float, nil] seconds {#call} waits for a process to come free; nil: forever
    # @param name [String, nil] as for {ConnectionPool#initialize}
    # @yield in a process, with the arguments of {#call}
    # @raise [ArgumentError] if one of them is something else
    def initialize(size: Etc.nprocessors, timeout: nil, name: nil, &work)
      Check.block("a process pool, to apply to arguments,", work)
      @work = work
      @forked = {}.compare_by_identity
      @pool = Workers.new(size: size, timeout: timeout, name: name, alive: :alive?.to_proc,
                          tidy: :alive?.to_proc, close: method(:close_worker),
                          abandon: method(:abandon)) { worker }
      @size = @pool.size
    end

    # Applies the block to the arguments in one of the processes.
    #
    # @param arguments [Array] marshallable
    # @return [Object] a copy of the value of the block
    # @raise [Exception] a copy of what the block raised
    # @raise [TypeError] if the arguments cannot be marshalled
    # @raise [NB::ProcessError] if the process dies, or its answer cannot be marshalled
    # @raise [NB::PoolTimeoutError] if no process came free in time
    # @raise [NB::ClosedError] after {#close}
    # @scheduling always waits
    # @thread any
    def call(*arguments)
      @pool.with do |worker|
        worker.call(arguments)
      ensure
        @pool.discard if worker.ended?
      end
    end

    # Lets every process end when it has answered. New ones are forked from what the program is now.
    #
    # @return [self]
    # @scheduling may wait
    # @thread any
    def reload
      @pool.reload
      self
    end

    # As {#reload}, and {#call} raises {NB::ClosedError} from now on.
    #
    # @return [self]
    # @scheduling may wait
    # @thread any
    def close
      @pool.close
      self
    end

    # @return [Hash{Symbol=>Integer, Float}] as {ConnectionPool#stats}, of processes
    # @scheduling never waits
    # @thread any
    def stats = @pool.stats

    # @return [Array<Integer>] the process ids there are now
    # @scheduling never waits
    # @thread any
    def pids = @forked.keys.filter_map(&:pid)

    private

    def worker
      ForkedWorker.new(&@work).tap { |worker| @forked[worker] = true }
    end

    def close_worker(worker)
      @forked.delete(worker)
      worker.close
    end

    def abandon(worker)
      @forked.delete(worker)
      worker.abandon
    end
  end
end
