# frozen_string_literal: true

require "etc"
require_relative "../fiber_state"
require_relative "connection_pool"
require_relative "forked_worker"

module NB
  # Forked processes that call one block with what they are sent. This runs Ruby code on all
  # processors, while the calling fiber waits as for any other I/O.
  #
  # The block is given once, to `new`. A process is forked when it is first needed, and knows what
  # the block could see at that moment; later changes do not reach it (see {#reload}). After that
  # only arguments, values and exceptions travel, as Marshal data: strings, numbers, arrays, hashes,
  # structs, objects of classes known to both sides; no procs, no IO, no connections.
  # {NB.in_process} takes any block, at the price of one fork each: 1 to 2 ms in a fresh process,
  # ten times as much in a process that has had thousands of fibers, because the kernel copies the
  # map of their stacks.
  #
  # Like every forked process, it holds a copy of the sockets that were open at the fork, as long as
  # it lives. The other end of such a socket sees its end after `shutdown`, not after `close` alone.
  #
  # A process that dies is replaced; a fiber that waits for it gets a {NB::ProcessError}. A call
  # that is cancelled or times out kills its process, which is also replaced.
  #
  # @example
  #   digests = NB::ProcessPool.new(size: 4) { |path| Digest::SHA256.file(path).hexdigest }
  #   NB.map(Dir["*.iso"], concurrency: digests.size) { |path| digests.call(path) }
  class ProcessPool
    # The pool knows a worker before it has a process.
    class Workers < ConnectionPool
      private

      def kind = "NB::ProcessPool"

      def make(place)
        super
        place.thing.start
      end
    end
    private_constant :Workers

    # @return [Integer] the maximum number of processes
    attr_reader :size

    # @param size [Integer] the maximum number of processes, 1 or more
    # @param timeout [Float, nil] seconds that {#call} waits for a free process; nil: no limit
    # @param name [String, nil] as for {ConnectionPool#initialize}
    # @yield in a process, with the arguments of {#call}
    # @raise [ArgumentError] for an invalid argument
    def initialize(size: Etc.nprocessors, timeout: nil, name: nil, &work)
      Check.block("NB::ProcessPool.new", work)
      @work = work
      @forked = {}.compare_by_identity
      @pool = Workers.new(size: size, timeout: timeout, name: name, alive: :alive?.to_proc,
                          tidy: :alive?.to_proc, close: method(:close_worker),
                          abandon: method(:abandon)) { worker }
      @size = @pool.size
    end

    # Calls the block with the arguments in one of the processes.
    #
    # @param arguments [Array] that Marshal can dump
    # @return [Object] a copy of the value of the block
    # @raise [Exception] a copy of what the block raised
    # @raise [TypeError] if the arguments cannot be marshalled
    # @raise [NB::ProcessError] if the process dies, or its answer cannot be marshalled
    # @raise [NB::PoolTimeoutError] if no process became free in time
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

    # Lets every process end after its current answer. New ones are forked from the program as it is
    # then.
    #
    # @return [self]
    # @scheduling may wait
    # @thread any
    def reload
      @pool.reload
      self
    end

    # The same as {#reload}; and from now on {#call} raises {NB::ClosedError}.
    #
    # @return [self]
    # @scheduling may wait
    # @thread any
    def close
      @pool.close
      self
    end

    # @return [Hash{Symbol=>Integer, Float}] as {ConnectionPool#stats}, for processes
    # @scheduling never waits
    # @thread any
    def stats = @pool.stats

    # @return [Array<Integer>] the ids of the existing processes
    # @scheduling never waits
    # @thread any
    def pids = @forked.keys.filter_map(&:pid)

    private

    def worker
      ForkedWorker.new(&fresh(@work)).tap { |worker| @forked[worker] = true }
    end

    # Ruby gives the child what was in the storage (`Fiber[:x]`) of the fiber that happened to need
    # it first, such as a request's locale. Its calls come from others, too.
    def fresh(work)
      begun = false
      lambda do |*arguments|
        FiberState.clear unless begun
        begun = true
        work.call(*arguments)
      end
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
