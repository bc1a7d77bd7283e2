# frozen_string_literal: true

require_relative "registry"
require_relative "any_ractor"
require_relative "../loop/repairs"

# Stripe keeps its connections in `Thread.current[:x]`: one for each thread, but in a loop one for
# each fiber. Each request of a server would open one, with a TLS handshake, and Stripe's list would
# keep it open for two to three minutes. In a loop, each call has a connection to itself, which
# afterwards waits for the next call, in whichever fiber.
module NB
  module Drivers
    # Prepended to the singleton class of Stripe::APIRequestor.
    module StripeConnections
      extend AnyRactor

      # Seconds after which Stripe closes a connection that nobody has used.
      EXPIRY = 120
      # A Stripe::ConnectionManager that waits for a call, and what its configuration says.
      Idle = Struct.new(:key, :manager)
      private_constant :EXPIRY, :Idle

      # Stands in for a ConnectionManager.
      class Lender
        # @param config [Stripe::StripeConfiguration]
        def initialize(config) = @config = config

        # Works like that of a ConnectionManager, of which each call has one to itself.
        #
        # @scheduling may wait
        # @api private
        def execute_request(...)
          key = StripeConnections.key(@config)
          manager = StripeConnections.take(key) || ::Stripe::ConnectionManager.new(@config)
          response = manager.execute_request(...)
          whole = true
          response
        ensure
          whole ? StripeConnections.keep(key, manager) : StripeConnections.close(manager)
        end
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          self.driver = driver
          ::Stripe::APIRequestor.singleton_class.prepend(self)
        end

        # @return [String] what the configuration says. The first connection loads the certificates,
        #   which are a part of that.
        # @api private
        def key(config)
          config.ca_store if config.verify_ssl_certs
          config.key
        end

        # @return [Stripe::ConnectionManager, nil] the one used last
        # @api private
        def take(key)
          oldest = Process.clock_gettime(Process::CLOCK_MONOTONIC) - EXPIRY
          close(all.shift.manager) while all.any? && all.first.manager.last_used < oldest
          found = all.rindex { |idle| idle.key == key }
          all.delete_at(found).manager if found
        end

        # @return [void]
        # @api private
        def keep(key, manager) = all.push(Idle.new(key, manager))

        # @return [void]
        # @api private
        def close(manager)
          manager&.clear
        rescue StandardError
          nil # it was closed already
        end

        # Closes those that wait.
        #
        # @param key [String, nil] nil: all
        # @return [void]
        # @api private
        def clear(key)
          chosen = all.select { |idle| key.nil? || idle.key == key }
          @all -= chosen
          chosen.each { |idle| close(idle.manager) }
        end

        private

        # A forked child leaves its parent's alone.
        def all
          @all = [] unless @pid == Process.pid
          @pid = Process.pid
          @all
        end
      end

      # Works like Stripe's own method.
      def default_connection_manager(config = ::Stripe.config)
        StripeConnections.in_loop? ? Lender.new(config) : super
      end

      # Works like Stripe's own method.
      def clear_all_connection_managers(config: nil)
        super
      ensure
        StripeConnections.clear(config&.key)
      end
    end
  end
end

NB::Drivers.register("stripe", constant: "Stripe::APIRequestor", version: "Stripe::VERSION",
                               versions: [">= 13", "< 21"]) do |driver|
  NB::Drivers::StripeConnections.install(driver)
end
