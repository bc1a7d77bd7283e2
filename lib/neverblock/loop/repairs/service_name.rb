# frozen_string_literal: true

require "socket"
require_relative "../offload"

# Services by name ("http") and canonical names. Under a scheduler Ruby (3.1 to 3.4) asks only for
# the addresses of a host and takes the service for a number: TCPSocket.new("localhost", "http")
# fails, and AI_CANONNAME finds nothing. getaddrinfo then looks up everything at once, on a native
# thread; elsewhere the name becomes its port.
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

    # Where services stand among the arguments, and of which protocol.
    # @api private
    SERVICES = [
      [Socket.singleton_class, :sockaddr_in, [0], %w[tcp udp]],
      [Socket.singleton_class, :pack_sockaddr_in, [0], %w[tcp udp]],
      [Addrinfo.singleton_class, :tcp, [1], %w[tcp]],
      [Addrinfo.singleton_class, :udp, [1], %w[udp]],
      [UDPSocket, :bind, [1], %w[udp]],
      [UDPSocket, :connect, [1], %w[udp]],
      [UDPSocket, :send, [3], %w[udp]],
      [TCPSocket, :initialize, [1, 3], %w[tcp]],
      [TCPServer, :initialize, [-1], %w[tcp]]
    ].freeze

    # @return [Object] the port of a service that has a name, in /etc/services; else what it was
    # @api private
    def self.port_of(service, protocols)
      return service unless more_than_addresses?(service, nil)

      protocols.each do |protocol|
        return Socket.getservbyname(service, protocol)
      rescue SocketError
        next
      end
      type = protocols.first == "udp" ? :DGRAM : :STREAM
      # Not in the list: let getaddrinfo find it, or say why not.
      Offload.default.call { Addrinfo.getaddrinfo(nil, service, nil, type).first.ip_port }
    end

    SERVICES.each do |owner, name, *where|
      places, protocols = where
      replace(owner, name) do |original|
        proc do |*arguments, **options, &block|
          if Repairs.loop_here
            places.each { |at| arguments[at] &&= Repairs.port_of(arguments[at], protocols) }
          end
          original.bind_call(self, *arguments, **options, &block)
        end
      end
    end
  end
end
