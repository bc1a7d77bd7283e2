# frozen_string_literal: true

require_relative "names"

module NB
  module Legacy
    # The reactor of 2008 on today's loop: callbacks for IOs and timers. Each attached IO and each
    # timer has a fiber of its own, so a callback that waits holds nothing else up. An error in a
    # callback ends {#run}, which raises it.
    #
    # @example
    #   NB.reactor.run do |reactor|
    #     reactor.attach(:read, server) { |io| io.accept.close }
    #     reactor.add_timer(10) { reactor.stop }
    #   end
    class Reactor
      # Returned by {#add_timer}.
      class Timer
        # @api private
        def initialize(reactor, seconds, periodical, &block)
          @task = reactor.start do
            until @cancelled
              Kernel.sleep(seconds)
              block.call
              break unless periodical
            end
          end
        end

        # Stops calling its block. A block that cancels its own timer runs to its end.
        #
        # @return [void]
        # @scheduling never waits
        def cancel
          @cancelled = true
          @task.cancel unless @task.current?
        end
      end

      # Calls the blocks of one IO: its task, once that has begun to wait.
      Watcher = Struct.new(:task)
      private_constant :Watcher

      # @api private
      def initialize
        @callbacks = { read: {}.compare_by_identity, write: {}.compare_by_identity }
        @watchers = { read: {}.compare_by_identity, write: {}.compare_by_identity }
        @ticks = Thread::Queue.new
      end

      # Runs a loop until {#stop}, or runs the reactor inside the current loop. IOs that were
      # attached before are watched from now on.
      #
      # @yieldparam reactor [Reactor] inside the loop, before anything else
      # @return [void]
      # @raise [NBError] if it is already running
      # @raise what a callback raised
      # @scheduling always waits
      def run(&block)
        raise NBError, "the reactor is already running" if running?

        NB.run { NB.group { |group| serve(group, &block) } }
        nil
      end

      # Ends {#run} at the next turn, if it runs; IOs stay attached for the next run.
      #
      # @return [void]
      # @scheduling never waits
      # @thread any
      def stop
        group = @group
        @ticks.push(group) if group # with the group: a late one must not end the next run
        nil
      end

      # @return [Boolean]
      # @scheduling never waits
      # @thread any
      def running? = !@group.nil?

      # Calls the block whenever the io is ready, until {#detach}.
      #
      # @param mode [Symbol] :read or :write
      # @param io [IO]
      # @param wait_if_attached [Boolean] whether the block waits until an attached one is detached;
      #   false: it takes its place
      # @yieldparam io [IO]
      # @yieldparam reactor [Reactor]
      # @return [void]
      # @scheduling never waits
      def attach(mode, io, wait_if_attached = true, &block)
        raise ArgumentError, "attach needs a block" unless block

        blocks = of(mode)[io]
        blocks && wait_if_attached ? blocks.push(block) : of(mode)[io] = [block]
        watch(mode, io) if (running? || NB.running?) && !@watchers[mode][io]
      end

      # Stops calling its block. The next waiting block takes its place, if there is one.
      #
      # @param mode [Symbol] :read or :write
      # @param io [IO]
      # @param force [Boolean] true: no block takes its place
      # @return [void]
      # @scheduling never waits
      def detach(mode, io, force = false)
        blocks = of(mode)[io] or return
        blocks.shift
        return if blocks.any? && !force

        of(mode).delete(io)
        task = @watchers[mode].delete(io)&.task
        task.cancel if task && !task.current?
      end

      # @param mode [Symbol] :read or :write
      # @return [void]
      # @scheduling never waits
      def detach_all(mode) = of(mode).each_key.to_a.each { |io| detach(mode, io, true) }

      # @param mode [Symbol] :read or :write
      # @param io [IO]
      # @return [Boolean]
      # @scheduling never waits
      def attached?(mode, io) = of(mode).key?(io)

      # Calls the block after this many seconds, if the loop still runs then.
      #
      # @param seconds [Numeric]
      # @param periodical [Boolean] whether to call it repeatedly
      # @return [Timer]
      # @scheduling never waits
      def add_timer(seconds, periodical = false, &block)
        Timer.new(self, seconds, periodical, &block)
      end

      # @param seconds [Numeric]
      # @return [Timer]
      # @scheduling never waits
      def add_periodical_timer(seconds, &block) = add_timer(seconds, true, &block)

      # Calls the block at the next turn of {#run}.
      #
      # @return [void]
      # @scheduling never waits
      # @thread any
      def next_tick(&block)
        @ticks.push(block)
        nil
      end

      # A fiber of {#run}, or of the current loop.
      # @api private
      def start(&block) = @group ? @group.async(&block) : NB.async(&block)

      private

      def of(mode)
        @callbacks.fetch(mode) { raise ArgumentError, "mode must be :read or :write, got: #{mode}" }
      end

      def serve(group)
        @group = group
        watch_all
        yield self if block_given?
        until (tick = @ticks.pop).equal?(group)
          tick.call unless tick.is_a?(Group)
        end
        group.cancel
      ensure
        @group = nil
      end

      # Skips those that fibers of the loop around {#run} already watch, and continue to watch.
      def watch_all
        @callbacks.each do |mode, ios|
          ios.each_key.to_a.each { |io| watch(mode, io) unless @watchers[mode][io] }
        end
      end

      # The task may call blocks, which attach and detach, before it is known here.
      def watch(mode, io)
        watcher = Watcher.new
        watchers = @watchers[mode]
        watcher.task = start do
          watchers[io] = watcher
          while watchers[io].equal?(watcher)
            NB.wait(mode, io)
            callback = of(mode)[io]&.first if watchers[io].equal?(watcher)
            callback&.call(io, self)
          end
        ensure
          watchers.delete(io) if watchers[io].equal?(watcher)
        end
      end
    end
  end
end
