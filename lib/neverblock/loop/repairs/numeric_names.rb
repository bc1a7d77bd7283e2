# frozen_string_literal: true

require "socket"

# Addresses as text. Since Ruby 3.3, each getnameinfo call runs on a new native thread, even if only
# numbers are written and nothing is looked up. No hook is called, and the whole thread stands until
# the kernel has run the new one: 10 ms and more on a busy machine. Everything that makes an
# Addrinfo by name or number does this, for #inspect (Socket.tcp, Addrinfo.tcp, foreach).
module NB
  module Repairs
    # A query to Addrinfo.getaddrinfo. It is answered here if it asks for one type of socket, with a
    # numeric port and without flags.
    # @api private
    AddressQuery = Struct.new(:host, :service, :family, :type, :protocol, :flags)

    class AddressQuery
      # The accepted spellings of a socket type, and of a family with its addresses.
      forms = ->(*names) { names + names.map(&:to_sym) + [Socket.const_get(names.last)] }
      TYPES = %w[STREAM DGRAM].flat_map do |name|
        forms[name, "SOCK_#{name}"].map { |form| [form, "SOCK_#{name}"] }
      end.to_h.freeze
      FAMILIES = { "UNSPEC" => //, "INET" => /\A[^:]+\z/, "INET6" => /:/ }.flat_map do |name, texts|
        forms[name, "AF_#{name}", "PF_#{name}"].map { |form| [form, texts] }
      end.to_h.merge(nil => //).freeze
      PROTOCOLS = { "SOCK_STREAM" => "IPPROTO_TCP", "SOCK_DGRAM" => "IPPROTO_UDP" }.freeze
      private_constant :TYPES, :FAMILIES, :PROTOCOLS

      # @return [Array<Addrinfo>, nil] nil: Ruby has to answer
      # @scheduling may wait
      def addresses(loop)
        return unless type_name && texts && port? && no_more?

        found = host.match?(/:|\A[\d.]+\z/) ? [host] : loop.address_resolve(host)
        # Unknown name: raises Ruby's error without a second lookup.
        found ||= Addrinfo.getaddrinfo(*first(5), Socket::AI_NUMERICHOST)
        found = found.grep(texts)
        addrinfos(found) if found.any?
      end

      private

      def type_name = TYPES[type]
      def protocol_name = PROTOCOLS[type_name]
      def texts = FAMILIES[family]

      def port?
        case service
        when nil then true
        when Integer then service.between?(0, 65_535)
        when String then form?(service, /\A(?:0|[1-9]\d{0,4})\z/) && Integer(service) <= 65_535
        end
      end

      def no_more?
        host.is_a?(String) && form?(host, /\A[\w.:-]+\z/) && [nil, 0].include?(flags) &&
          [nil, 0, Socket.const_get(protocol_name)].include?(protocol)
      end

      # Names and services may hold any bytes, in any encoding.
      def form?(text, form) = text.ascii_only? && text.match?(form)

      def addrinfos(found)
        first, = Native.numeric_address(addrinfo(found.first, nil).to_sockaddr)
        name = host.dup.freeze unless first == host
        found.map { |text| addrinfo(text, name) }
      end

      # Marshalled addresses carry their name, so Ruby does not compute it.
      def addrinfo(text, name)
        family = text.include?(":") ? "INET6" : "INET"
        Addrinfo.allocate.tap do |made|
          made.__send__(:marshal_load, ["AF_#{family}", [text, service.to_s], "PF_#{family}",
                                        type_name, protocol_name, nil, name])
        end
      end
    end

    class << self
      # @return [Array, nil] what IPSocket#addr and #peeraddr return without names
      # @api private
      def numeric_address(addrinfo)
        ip, port = Native.numeric_address(addrinfo.to_sockaddr)
        [addrinfo.ipv6? ? "AF_INET6" : "AF_INET", Integer(port), ip, ip] if ip
      end

      # @return [Array] what Socket.getaddrinfo returns without names
      # @api private
      def address_row(addrinfo)
        family, port, ip, = numeric_address(addrinfo)
        [family, port, ip, ip, addrinfo.pfamily, addrinfo.socktype, addrinfo.protocol]
      end

      # @return [Boolean] whether a socket returns its addresses without looking up names
      # @api private
      def numeric?(socket, reverse)
        reverse.nil? ? socket.do_not_reverse_lookup : [false, :numeric].include?(reverse)
      end
    end

    repair(Addrinfo.singleton_class, :getaddrinfo) do |original|
      proc do |host, service, *rest, **options|
        (Repairs.loop_here && rest.size < 5 && (options.keys - [:timeout]).empty? &&
          AddressQuery.new(host, service, *rest).addresses(Repairs.loop_here)) ||
          __send__(original, host, service, *rest, **options)
      end
    end

    { tcp: :STREAM, udp: :DGRAM }.each do |name, type|
      repair(Addrinfo.singleton_class, name) do |original|
        proc do |host, service|
          (Repairs.loop_here &&
            AddressQuery.new(host, service, nil, type).addresses(Repairs.loop_here)&.first) ||
            __send__(original, host, service)
        end
      end
    end

    repair(Socket.singleton_class, :getaddrinfo) do |original|
      proc do |host, service, *rest|
        found = (AddressQuery.new(host, service, *rest.first(4)).addresses(Repairs.loop_here) if
          Repairs.loop_here && rest.size < 6 && Repairs.numeric?(BasicSocket, rest[4]))
        found&.map { |addrinfo| Repairs.address_row(addrinfo) } ||
          __send__(original, host, service, *rest)
      end
    end

    repair(Addrinfo, :ip_address) do |original|
      proc do
        (Repairs.loop_here && Native.numeric_address(to_sockaddr)&.first) || __send__(original)
      end
    end

    repair(Socket.singleton_class, :unpack_sockaddr_in) do |original|
      proc do |address|
        packed = address.is_a?(Addrinfo) ? address.to_sockaddr : address
        ip, port = Native.numeric_address(packed) if Repairs.loop_here && packed.is_a?(String)
        ip ? [Integer(port), ip] : __send__(original, address)
      end
    end

    { addr: :local_address, peeraddr: :remote_address }.each do |name, address|
      repair(IPSocket, name) do |original|
        proc do |*reverse|
          (Repairs.loop_here && reverse.size < 2 && Repairs.numeric?(self, reverse.first) &&
            Repairs.numeric_address(__send__(address))) || __send__(original, *reverse)
        end
      end
    end
  end
end
