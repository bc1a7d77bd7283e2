# frozen_string_literal: true

require_relative "binding"

module NB
  class Server
    # What `bind:` names: a place to listen at, with TLS or without.
    #
    # @api private
    module Address
      # @param addresses [String, Array<String>] the value of `bind:`
      # @return [Array<Binding, Tls>] at least one
      # @raise [ArgumentError]
      def self.all(addresses)
        list = Array(addresses)
        list.empty? ? refuse(addresses) : list.map { |address| parse(address) }
      end

      # @param address [String] as in `bind:`
      # @return [Binding, Tls]
      # @raise [ArgumentError]
      def self.parse(address)
        refuse(address) unless address.is_a?(String)
        return Binding.parse(address) unless address.start_with?("ssl://")

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
