# frozen_string_literal: true

require_relative "binding"

module NB
  class Server
    # What `bind:` names: a place to listen at, with TLS or without.
    #
    # @api private
    module Address
      # @param address [String] as in `bind:`
      # @return [Binding, Tls]
      # @raise [ArgumentError]
      def self.parse(address)
        return Binding.parse(address) unless address.start_with?("ssl://")

        require_relative "tls"
        Tls.parse(address)
      end
    end
  end
end
