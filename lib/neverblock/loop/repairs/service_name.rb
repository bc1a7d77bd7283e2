# frozen_string_literal: true

require "socket"
require_relative "../offload"

# Queries that only getaddrinfo can answer. Under a scheduler, Ruby (3.1 to 3.4) asks only for the
# addresses of a host, and reads these and the service as plain numbers. So
# TCPSocket.new("localhost", "http"), Addrinfo.tcp("fe80::1%eth0", 80), TCPServer.new("*", 80) and
# AI_CANONNAME find nothing, and every mistake (port -1, an unknown family) is "Name or service not
# known". Here such queries go to getaddrinfo as a whole, on a native thread; where a socket is
# made, the service name becomes a port.
module NB
  module Repairs
    # Services, families and types that Ruby can read itself.
    PLAIN_FAMILY = /\A(?:(?:[AP]F_)?(?:UNSPEC|INET6?))?\z/
    PLAIN_TYPE = /\A(?:(?:SOCK_)?(?:STREAM|DGRAM))?\z/
    PLAIN_FAMILIES = [Socket::AF_UNSPEC, Socket::AF_INET, Socket::AF_INET6].freeze
    PLAIN_TYPES = [0, Socket::SOCK_STREAM, Socket::SOCK_DGRAM].freeze
    private_constant :PLAIN_FAMILY, :PLAIN_TYPE, :PLAIN_FAMILIES, :PLAIN_TYPES

    class << self
      # @return [Boolean] whether the query asks getaddrinfo for more than addresses
      # @api private
      def more_than_addresses?(host, service, *rest)
        family, type, _, flags = rest
        !port?(service) || whole?(host) ||
          !plain?(family, PLAIN_FAMILIES, PLAIN_FAMILY) ||
          !plain?(type, PLAIN_TYPES, PLAIN_TYPE) ||
          (flags.is_a?(Integer) && flags.anybits?(Socket::AI_CANONNAME))
      end

      # @return [Boolean]
      # @api private
      def port?(service)
        case service
        when Integer then service.between?(0, 65_535)
        when String
          service.ascii_only? && service.match?(/\A\d{0,5}\z/) && service.to_i <= 65_535
        else true
        end
      end

      # @return [Boolean] whether it means nothing without the service: an address that names its
      #   interface (fe80::1%eth0), or glibc's * for all addresses of this machine
      # @api private
      def whole?(host) = host.is_a?(String) && (host == "*" || host.b.include?("%"))

      # @yield a lookup that reports its own errors, inside a loop
      # @api private
      def look_up(query, &call)
        return Offload.default.call_first(&call) if more_than_addresses?(*query)

        begin
          yield
        rescue SocketError
          raise unless query[2] # for any family: the name is unknown

          Offload.default.call_first(&call) # raises the exact error
        end
      end

      private

      def plain?(value, numbers, names)
        value.is_a?(Integer) ? numbers.include?(value) : value.to_s.match?(names)
      end
    end

    [Addrinfo, Socket].each do |owner|
      repair(owner.singleton_class, :getaddrinfo) do |original|
        proc do |host, service, *rest, **options|
          call = -> { __send__(original, host, service, *rest, **options) }
          Repairs.loop_here ? Repairs.look_up([host, service, *rest.first(4)], &call) : call.call
        end
      end
    end

    %i[tcp udp].each do |name|
      repair(Addrinfo.singleton_class, name) do |original|
        proc do |host, service|
          call = -> { __send__(original, host, service) }
          Repairs.loop_here ? Repairs.look_up([host, service], &call) : call.call
        end
      end
    end

    %i[sockaddr_in pack_sockaddr_in].each do |name|
      repair(Socket.singleton_class, name) do |original|
        proc do |service, host|
          call = -> { __send__(original, service, host) }
          Repairs.loop_here ? Repairs.look_up([host, service], &call) : call.call
        end
      end
    end

    [[Addrinfo, :ip], [IPSocket, :getaddress]].each do |owner, name|
      repair(owner.singleton_class, name) do |original|
        proc do |host|
          call = -> { __send__(original, host) }
          Repairs.loop_here ? Repairs.look_up([host, nil], &call) : call.call
        end
      end
    end

    # The position of the service among the arguments of socket constructors, and the socket type.
    # @api private
    SERVICES = Ractor.make_shareable([
      [UDPSocket, :bind, [1], :DGRAM],
      [UDPSocket, :connect, [1], :DGRAM],
      [UDPSocket, :send, [3], :DGRAM],
      [TCPSocket, :initialize, [1, 3], :STREAM],
      [TCPServer, :initialize, [-1], :STREAM]
    ])

    # @return [Integer] the port of a service given by name
    # @api private
    def self.port_of(service, type)
      Offload.default.call_first { Addrinfo.getaddrinfo(nil, service, nil, type).first.ip_port }
    end

    # Makes the error of a socket name the requested service instead of its port.
    #
    # @param asked [Hash{Integer=>Object}] port => the service it stands for
    # @api private
    def self.as_asked(asked)
      yield
    rescue SystemCallError => error
      port = error.message[/(?<= port )\d+\z/]
      service = port && asked[port.to_i]
      error.message.sub!(/\d+\z/, service.to_s) if service && !error.message.frozen?
      raise
    end

    SERVICES.each do |owner, name, *where|
      places, type = where
      repair(owner, name) do |original|
        proc do |*arguments, **options|
          call = -> { __send__(original, *arguments, **options) }
          next call.call unless Repairs.loop_here

          asked = {}
          places.each do |at|
            next if !arguments[at] || Repairs.port?(arguments[at])

            service = arguments[at]
            asked[arguments[at] = Repairs.port_of(service, type)] = service
          end
          # Such a host is lost when Ruby asks for addresses.
          whole = places.any? { |at| Repairs.whole?(arguments[at - 1]) }
          Repairs.as_asked(asked) { whole ? Offload.default.call_first(&call) : call.call }
        end
      end
    end
  end
end
