# frozen_string_literal: true

require_relative "../../sync/pools"

module NB
  module Drivers
    module Sequel
      # The pools of Sequel's databases, for {NB.pools}. Sequel counts no waits. Who waits is known
      # from Ruby 3.2 on, where its pool is a queue.
      #
      # @api private
      module Accounts
        class << self
          # @return [Array<Pools::Account>]
          def all = ::Sequel::DATABASES.dup.flat_map { |database| of(database) }

          private

          # A database with several servers has one account per server.
          def of(database)
            held, queue, idle = %i[@allocated @queue @available_connections].map do |name|
              database.pool.instance_variable_get(name)
            end
            return [] unless held.is_a?(Hash)
            return [account(database, nil, held, queue, idle || queue)] if held.compare_by_identity?

            held.keys.map do |server|
              account(database, server, held[server], queue&.[](server), (idle || queue)[server])
            end
          end

          def account(database, server, held, queue, idle) # rubocop:disable Metrics/ParameterLists
            NB::Pools::Account.new(
              name: label(database, server), kind: "Sequel", size: database.pool.max_size,
              in_use: held.size, idle: idle.size, waiting: queue&.num_waiting,
              holders: held.keys.map { |fiber| NB::Pools::Holder.new(fiber) }, waiters: [],
              queue: queue
            )
          end

          # Not the URL, which may contain a password.
          def label(database, server)
            words = [database.adapter_scheme, database.opts[:database], server]
            words.compact.map { |word| File.basename(word.to_s) }.join("/")
          end
        end
      end
    end
  end
end
