# frozen_string_literal: true

require_relative "registry"
require_relative "any_ractor"

# curb waits by Ruby's scheduler: one fiber performs the transfers of all fibers of a thread. If a
# timeout or a cancel ends Curl::Easy#perform, the transfer goes on by itself, and the handle can
# neither be changed nor performed meanwhile; with threads the transfer ends at once. And a
# Curl::Multi whose `perform` was interrupted waits forever when it performs again: libcurl does
# not name the sockets again that it has named before.
module NB
  module Drivers
    # What curb does in a loop of ours.
    module Curb
      extend AnyRactor

      # Prepended to the singleton class of Curl.
      module Transfers
        # Works like curb's own method, which ends the transfer only in threads.
        # @api private
        def perform_with_scheduler(easy)
          whole = false
          super.tap { whole = true }
        ensure
          Curb.take_out(scheduler_state, easy) if !whole && Curb.in_loop?
        end
      end

      # Prepended to Curl::Multi.
      module Again
        # Works like curb's own method. What was interrupted continues on a thread, which asks
        # libcurl for the sockets.
        # @api private
        def perform(...)
          return super unless Curb.in_loop?
          return Curb.on_a_thread { super } if @neverblock_interrupted

          begin
            whole = false
            super.tap { whole = true }
          ensure
            @neverblock_interrupted = !whole && requests.any?
          end
        end
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          self.driver = driver
          ::Curl.singleton_class.prepend(Transfers)
          ::Curl::Multi.prepend(Again)
        end

        # One whose block waits at this moment cannot be taken out, and ends later.
        #
        # @api private
        def take_out(state, easy)
          state[:pending].reject! { |one| one.equal?(easy) }
          state[:multi].remove(easy)
        rescue ::Curl::Err::CurlError
          nil
        end

        # @return the block's value
        # @api private
        def on_a_thread
          thread = Thread.new do
            Thread.current.report_on_exception = false
            yield
          end
          thread.value
        ensure
          thread&.kill&.join
        end
      end
    end

    register("curb", constant: "Curl::Multi", version: "Curl::CURB_VERSION",
                     versions: [">= 1.3", "< 2"], features: %w[curb curl]) do |driver|
      Curb.install(driver) if ::Curl.respond_to?(:perform_with_scheduler)
    end
  end
end
