# frozen_string_literal: true

require "socket"
require_relative "../offload"

# Services by name ("http") and canonical names. Under a scheduler Ruby (3.1 to 3.4) asks only for
# the addresses of a host and takes the service for a number: TCPSocket.new("localhost", "http")
# fails, and AI_CANONNAME finds nothing. Such calls look up everything at once, on a native thread.
module NB
  module Repairs
    # @return [Boolean] whether getaddrinfo has to be asked for more than addresses
    # @api private
    def self.more_than_addresses?(service, flags)
      (service.is_a?(String) && !service.match?(/\A\d*\z/)) ||
        (flags.is_a?(Integer) && flags.anybits?(Socket::AI_CANONNAME))
    end

    [Addrinfo, Socket].each do |owner|
      replace(owner.singleton_class, :getaddrinfo) do |original|
        proc do |host, service, *rest, **options|
          call = -> { original.bind_call(self, host, service, *rest, **options) }
          next call.call unless Repairs.loop_here &&
            Repairs.more_than_addresses?(service, rest[3])

          Offload.default.call(&call)
        end
      end
    end

    replace(TCPSocket, :initialize) do |original|
      proc do |host, service = nil, *rest, **options, &block|
        if Repairs.loop_here && Repairs.more_than_addresses?(service, nil)
          found = Addrinfo.getaddrinfo(host, service, nil, :STREAM)
          service = found.first.ip_port
        end
        original.bind_call(self, host, service, *rest, **options, &block)
      end
    end
  end
end
