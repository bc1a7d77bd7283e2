# frozen_string_literal: true

require_relative "registry"
require_relative "any_ractor"
require_relative "../loop/repairs"

# Net::HTTP closes its socket after a StandardError only. A timeout or a cancel in the middle of a
# request leaves it open, with the answer still to come. If the program keeps the object (in a pool,
# for instance), the next request gets the answer to this one, which may belong to somebody else. In
# a loop the socket is closed; the next request opens another.
module NB
  module Drivers
    # Of Net::HTTP.
    module NetHTTPSockets
      extend AnyRactor

      ORIGINAL = :transport_request_without_neverblock
      private_constant :ORIGINAL

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          self.driver = driver
          Repairs.keep(::Net::HTTP, ORIGINAL, :transport_request)
          ::Net::HTTP.alias_method(:transport_request, :transport_request) # or Ruby warns
          ::Net::HTTP.define_method(:transport_request, instance_method(:transport_request))
          ::Net::HTTP.__send__(:private, :transport_request)
        end
      end

      private

      # Works like Net::HTTP's own method, in whose place it stands. (That asks whether there is a
      # block, too: with one, it does not try again.)
      def transport_request(req)
        return transport_request_without_neverblock(req) unless block_given?

        transport_request_without_neverblock(req) { |response| yield response }
      rescue StandardError
        raise
      rescue Exception # rubocop:disable Lint/RescueException -- also that of a cancel
        @socket&.close if NetHTTPSockets.in_loop?
        raise
      end
    end
  end
end

NB::Drivers.register("net-http-sockets", constant: "Net::HTTPResponse::CODE_TO_OBJ",
                                         features: %w[net/http],
                                         version: "Net::HTTP::VERSION") do |driver|
  NB::Drivers::NetHTTPSockets.install(driver)
end
