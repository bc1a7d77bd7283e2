# frozen_string_literal: true

require_relative "binding"

module NB
  class Server
    # What `bind:` names: a place to listen at, with TLS or without.
    #
    # @api private
    module Address
      LOCALHOST = %r{\A(?:tcp|ssl)://\Klocalhost(?=[:/?]|\z)}
      TLS = "ssl://"
      private_constant :LOCALHOST, :TLS

      # @param addresses [String, Array<String>] the value of `bind:`
      # @param proxied [Boolean] the value of `proxy_protocol:`
      # @return [Array<Binding, Tls>] at least one
      # @raise [ArgumentError]
      def self.all(addresses, proxied: false)
        list = Array(addresses)
        raise ArgumentError, "proxy_protocol: does not go with #{TLS}: let the proxy decrypt" if
          proxied && list.any? { |address| address.to_s.start_with?(TLS) }

        list.empty? ? refuse(addresses) : list.flat_map { |address| each_of(address) }
      end

      # Clients look `localhost` up, and may get either address: as Puma does, we listen at both.
      def self.each_of(address)
        return [parse(address)] unless LOCALHOST.match?(address.to_s.b) && both_loopbacks?

        v4, v6 = %w[127.0.0.1 [::1]].map { |host| parse(address.sub(LOCALHOST, host)) }
        [v4, v6.beside(v4)]
      end

      def self.both_loopbacks? = Socket.ip_address_list.any?(&:ipv6_loopback?)
      private_class_method :each_of, :both_loopbacks?

      # @param address [String] as in `bind:`
      # @return [Binding, Tls]
      # @raise [ArgumentError]
      def self.parse(address)
        refuse(address) unless address.is_a?(String) && address.valid_encoding?
        return Binding.parse(address) unless address.start_with?(TLS)

        require_relative "tls"
        Tls.parse(address)
      end

      def self.refuse(address)
        raise ArgumentError, "bind: must be an address such as tcp://127.0.0.1:9292, got: " \
                             "#{address.inspect}"
      end
      private_class_method :refuse
    end
  end
end
