# frozen_string_literal: true

require_relative "registry"
require_relative "any_ractor"

# redis-client and redis, also those for clusters, wait in the loop by themselves. But
# `multi(watch:)` and `watch` end a WATCH only after a StandardError. A cancel or a timeout in the
# block leaves it on the connection, and a pool lends that on: once somebody else writes the key,
# EXEC of the next user's `multi` carries nothing out and returns nil, as if that user had asked for
# it. In a loop such a connection is closed; the next command opens another.
module NB
  module Drivers
    # What ends a WATCH.
    module Watching
      # Prepended to RedisClient.
      module Client
        extend AnyRactor

        # Works like redis-client's own method.
        def multi(watch: nil)
          return super unless watch && Client.in_loop?

          Watching.whole(self) { super }
        end
      end

      # Prepended to Redis.
      module Commands
        extend AnyRactor

        # Works like the gem's own method.
        def watch(*)
          return super unless block_given? && Commands.in_loop?

          Watching.whole(self) { super }
        end
      end

      # Prepended to RedisClient::Cluster::OptimisticLocking, by which redis-cluster-client and
      # redis-clustering watch.
      module Cluster
        extend AnyRactor

        # Works like the library's own method.
        def watch(*)
          return super unless Cluster.in_loop?

          super { |client, *others| Watching.whole(client) { yield(client, *others) } }
        end
      end

      class << self
        # Closes the connection if the block is interrupted. After a StandardError the library has
        # ended the WATCH.
        #
        # @return the block's value
        # @api private
        def whole(client)
          yield
        rescue StandardError
          raise
        rescue Exception # rubocop:disable Lint/RescueException -- also that of a cancel
          client.close
          raise
        end
      end
    end
  end
end

NB::Drivers.register("redis-client", constant: "RedisClient", version: "RedisClient::VERSION",
                                     versions: ["< 1"]) do |driver|
  NB::Drivers::Watching::Client.driver = driver
  RedisClient.prepend(NB::Drivers::Watching::Client)
end

NB::Drivers.register("redis", constant: "Redis::Commands", version: "Redis::VERSION",
                              versions: [">= 5.0", "< 7"]) do |driver|
  NB::Drivers::Watching::Commands.driver = driver
  Redis.prepend(NB::Drivers::Watching::Commands)
end

NB::Drivers.register("redis-cluster-client", constant: "RedisClient::Cluster::OptimisticLocking",
                                             features: %w[redis-cluster-client redis_cluster_client
                                                          redis-clustering]) do |driver|
  NB::Drivers::Watching::Cluster.driver = driver
  RedisClient::Cluster::OptimisticLocking.prepend(NB::Drivers::Watching::Cluster)
end
