# frozen_string_literal: true

require_relative "../sync/pools"

module NB
  module Rails
    # ActiveRecord's pools: how long fibers and threads have waited for connections, who holds one
    # and who waits.
    module PoolWaits
      class << self
        # @param pool [ActiveRecord::ConnectionAdapters::ConnectionPool]
        # @return [WaitCount]
        # @scheduling never waits
        # @thread any
        def of(pool) = queue(pool).waits

        # Lists every pool: ActiveRecord's own counts (`pool.stat`) and the waits.
        #
        # @example
        #   NB::Rails::PoolWaits.all
        #   # => [{name: "primary", role: :writing, shard: :default, size: 12, busy: 12, …,
        #   #      waits: 988, wait_seconds: 4012.1, longest_wait_seconds: 8.2, timeouts: 0}]
        # @return [Array<Hash{Symbol => Object}>]
        # @scheduling never waits
        # @thread any
        def all
          list.map do |pool|
            { name: pool.db_config.name, role: pool.role, shard: pool.shard, **pool.stat,
              **of(pool).to_h }
          end
        end

        # @return [Array<Pools::Account>]
        # @api private
        def accounts = list.map { |pool| account(pool) }

        private

        def queue(pool) = pool.instance_variable_get(:@available)
        def list = ::ActiveRecord::Base.connection_handler.connection_pool_list(:all)

        # Works without the pool's lock, which a fiber may hold: copying an Array is one C call.
        def account(pool)
          connections = pool.instance_variable_get(:@connections).to_a.dup
          queue = queue(pool)
          used = connections.select(&:owner)
          Pools::Account.new(
            name: pool.db_config.name, kind: "ActiveRecord", size: pool.size, in_use: used.size,
            idle: connections.size - used.size, waiting: queue.num_waiting, waits: of(pool),
            holders: used.filter_map { |one| queue.holder(one) }, waiters: queue.waiters
          )
        end
      end
    end
  end
end
