# frozen_string_literal: true

require_relative "outer_transaction"

module NB
  module Rails
    # When a model is used for the first time, Rails asks for its columns under a lock. With fewer
    # connections than fibers, the holder of the lock may wait for a connection while those who have
    # them all wait for the lock, until `checkout_timeout` has passed. With this cure, a fiber of a
    # loop takes the connection before it takes the lock, and gives it back afterwards.
    module FirstUse
      # Prepended to the singleton class of ActiveRecord::Base.
      module Models
        # Works like Rails' own method.
        # @api private
        def load_schema
          FirstUse.connected(self) { super() } unless schema_loaded?
        end
      end

      class << self
        # @return [void]
        # @scheduling never waits
        def install
          ActiveSupport.on_load(:active_record) { singleton_class.prepend(Models) }
        end

        # @param model [Class]
        # @return the block's value
        # @scheduling may wait
        # @api private
        def connected(model)
          pool = pool_of(model) if NB.running? && !model.abstract_class?
          pool ? pool.with_connection { yield } : yield
        end

        private

        # @return [ActiveRecord::ConnectionAdapters::ConnectionPool, nil] nil: there is none, or it
        #   refuses the caller
        def pool_of(model)
          name = model.connection_specification_name
          pool = model.connection_handler.retrieve_connection_pool(
            name, role: model.current_role, shard: model.current_shard
          )
          pool unless pool.nil? || OuterTransaction.refuses?(pool)
        end
      end
    end
  end
end
