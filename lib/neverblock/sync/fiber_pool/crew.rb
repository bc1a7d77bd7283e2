# frozen_string_literal: true

module NB
  class FiberPool
    # The fibers that work at present, with one scheduler and one queue. After each rest the pool
    # gets a new crew, so different loops can use it one after the other.
    class Crew
      # What ends the whole loop when it leaves a fiber.
      ENDS = [::SystemExit, ::SignalException].freeze
      private_constant :ENDS

      # `jobs` is closed when the crew is dismissed. `starting` has the blocks whose fiber has not
      # begun; `fibers` has those that have, each with the time at which it got its last {Late}
      # block, or nil; `working` has those with a block; `late` has what waits in `jobs`. These are
      # Hashes for their O(1) delete. `limit` drops below the size of the pool when the system has
      # no room for more fibers. For `resting` see FiberPool#rest.
      attr_reader :scheduler, :pid, :jobs, :starting, :fibers, :working, :late
      attr_accessor :resting, :limit

      # @param scheduler [Object] of the thread that the fibers live in
      # @param limit [Integer] the maximum number of fibers
      def initialize(scheduler, limit)
        @scheduler = scheduler
        @pid = Process.pid
        @jobs = Thread::Queue.new
        @starting, @fibers, @working, @late = Array.new(4) { {}.compare_by_identity }
        @resting = 0
        @limit = limit
      end

      # @return [Integer] all fibers, including those that have not begun
      def count = fibers.size + starting.size

      # @return [Integer] blocks that have left the queue
      def busy = working.size + starting.size

      # @return [Integer] how many fibers will look for a job that is not in the queue yet
      def free = jobs.num_waiting + resting - jobs.length

      # @return [Boolean] whether everything that was spawned has ended
      def done? = busy.zero? && jobs.empty?

      # An exception that is still to be raised in this fiber at its next wait was meant for the
      # previous job, not for the next one.
      def forget_interrupts
        scheduler.forget_interrupts if scheduler.respond_to?(:forget_interrupts)
      end

      # The block's $~ and $_ are those of the fiber, not of the method that it was written in.
      def own_matches(job)
        scheduler.own_matches(job) if scheduler.respond_to?(:own_matches)
      end

      # @return [Boolean] whether the fibers belong to the process that forked this one
      def elsewhere? = @pid != Process.pid

      # @return [Boolean] whether fibers may wait for jobs without keeping the loop running
      def keeps? = scheduler.respond_to?(:idle)

      # @param error [Exception, nil] what has left a block and ended its fiber; nil after a
      #   {Cancelled} or a Fiber#kill
      # @return [Boolean] whether other fibers are to go on with what waits
      def goes_on?(error)
        return false if Thread.current.status == "aborting"
        return error.nil? unless scheduler.respond_to?(:ending?)

        !scheduler.ending? && ENDS.none? { |type| error.is_a?(type) }
      end

      # @param error [FiberError]
      # @return [String] that the system has no room for more fibers, and what to do
      def shortage(error)
        "has #{count} fibers and the system has no room for more (#{error.message}). Further " \
          "blocks wait in its queue. A fiber takes two memory mappings#{mapping_limit}: raise " \
          "that with `sysctl -w vm.max_map_count=262144`, or make the pool smaller."
      end

      private

      def mapping_limit
        ", vm.max_map_count is #{File.read("/proc/sys/vm/max_map_count").strip}"
      rescue SystemCallError
        "" # not Linux
      end
    end

    # A block that found all fibers busy, and since when it waits.
    Late = Struct.new(:block, :since) do
      # @return [Pools::Waiter]
      def account
        path, line = block.source_location
        Pools::Waiter.new(nil, since, path ? "#{path}:#{line}" : "a method in C")
      end
    end
    private_constant :Crew, :Late
  end
end
