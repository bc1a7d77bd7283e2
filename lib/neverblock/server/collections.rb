# frozen_string_literal: true

require_relative "../loop/fork"

module NB
  class Server
    # Puts full garbage collections off until no request runs: `collect_when_idle`.
    #
    # A full collection marks all objects of the process, and all requests stand still meanwhile.
    # While this server runs, Ruby does none by itself. When Ruby says that it wants one, it is done
    # as soon as the loop is about to sleep and no request runs.
    #
    # It is not put off for long: after {PATIENCE}, it is done even if requests wait. After {LIMIT},
    # or once Ruby has {GROWTH} times the memory for objects that it had, it is done in any case.
    #
    # @api private
    class Collections
      # Seconds until it is done although requests wait, and until it is done in any case.
      PATIENCE = 1.0
      LIMIT = 5.0
      # By which factor the memory for objects may grow.
      GROWTH = 1.25
      # Seconds between two looks at these limits.
      LOOK = 1
      # The name of Ruby's own setting.
      SETTING = :rgengc_allow_full_mark
      private_constant :PATIENCE, :LIMIT, :GROWTH, :LOOK, :SETTING

      @holders = {}.compare_by_identity # each of its calls is one in C: threads need no lock for it

      class << self
        # @raise [ArgumentError] where Ruby cannot be kept from full collections
        # @return [void]
        def check
          return if GC.respond_to?(:config) && GC.config.key?(SETTING)

          raise ArgumentError, "collect_when_idle: needs Ruby 3.4 or later with its own garbage " \
                               "collector, this is #{RUBY_VERSION}: leave it off"
        end

        # From now on, Ruby does no full collection by itself in this process.
        #
        # @return [void]
        def forbid(holder)
          @before = GC.config[SETTING] if @holders.empty?
          @holders[holder] = true
          GC.config(SETTING => false)
        end

        # Restores the setting once the last holder that forbade collections allows them.
        #
        # @return [void]
        def allow(holder)
          GC.config(SETTING => @before) if @holders.delete(holder) && @holders.empty?
        end

        # For a forked child, in which none of the holders' servers runs.
        #
        # @return [void]
        def forked = @holders.each_key { |holder| allow(holder) }
      end

      Fork.in_child { forked }

      def initialize
        Collections.check
        @since = nil # since when one is due
      end

      # @return [void]
      # @scheduling never waits
      def start
        Collections.forbid(self)
        @fiber = FiberNames.schedule("the server's garbage collection") do
          loop do
            Fiber.scheduler.idle { sleep LOOK }
            collect if overdue?
          end
        end
      end

      # Restores Ruby's setting.
      #
      # @return [void]
      # @scheduling never waits
      def stop
        Collections.allow(self)
        Fiber.scheduler.fiber_interrupt(@fiber, Cancelled.new("the server stops")) if @fiber&.alive?
      end

      # The loop is about to sleep.
      #
      # @param running [Integer] requests that wait for something
      # @return [Boolean] whether to ask again at the next rest
      def rest(running)
        return false unless due?

        collect if running.zero? || late?(PATIENCE)
        !@since.nil?
      end

      private

      # Notes since when one is due: at a collection that is not full, Ruby forgets that it wanted
      # one.
      def due?
        @since = nil if @since && @majors != GC.stat(:major_gc_count)
        return true if @since
        return false unless GC.latest_gc_info(:need_major_by)

        @majors = GC.stat(:major_gc_count)
        @pages = GC.stat(:heap_allocated_pages)
        @since = now
      end

      def overdue?
        due? && (late?(LIMIT) || GC.stat(:heap_allocated_pages) > @pages * GROWTH)
      end

      def collect
        GC.start
        @since = nil
      end

      def late?(seconds) = now - @since > seconds

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
