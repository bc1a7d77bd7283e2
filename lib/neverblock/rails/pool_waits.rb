# frozen_string_literal: true

module NB
  module Rails
    # How long fibers and threads have waited for a connection of one pool.
    class PoolWaits
      @all = ObjectSpace::WeakMap.new
      @lock = Thread::Mutex.new

      class << self
        # @param pool [ActiveRecord::ConnectionAdapters::ConnectionPool]
        # @return [PoolWaits]
        # @scheduling never waits
        # @thread any
        def of(pool) = @all[pool] || @lock.synchronize { @all[pool] ||= new }

        # Every pool: what ActiveRecord counts (`pool.stat`), and what was waited for.
        #
        # @example
        #   NB::Rails::PoolWaits.all
        #   # => [{name: "primary", role: :writing, shard: :default, size: 12, busy: 12, …,
        #   #      waits: 988, wait_seconds: 4012.1, longest_wait_seconds: 8.2, timeouts: 0}]
        # @return [Array<Hash{Symbol => Object}>]
        # @scheduling never waits
        # @thread any
        def all
          ::ActiveRecord::Base.connection_handler.connection_pool_list(:all).map do |pool|
            { name: pool.db_config.name, role: pool.role, shard: pool.shard, **pool.stat,
              **of(pool).to_h }
          end
        end
      end

      def initialize
        @waits = @timeouts = 0
        @seconds = @longest = 0.0
      end

      # Called under the pool's lock.
      # @api private
      def count(seconds)
        @waits += 1
        @seconds += seconds
        @longest = seconds if seconds > @longest
      end

      # Called by who gives up, beside {#count}.
      # @api private
      def count_timeout = @timeouts += 1

      # @return [Hash{Symbol => Integer, Float}] :waits (checkouts that had to wait), :wait_seconds
      #   in all, :longest_wait_seconds, :timeouts
      # @scheduling never waits
      # @thread any
      def to_h
        { waits: @waits, wait_seconds: @seconds.round(6), longest_wait_seconds: @longest.round(6),
          timeouts: @timeouts }
      end
    end
  end
end
