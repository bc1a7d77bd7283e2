# frozen_string_literal: true

require "ipaddr"

module NB
  class Server
    # The Host field of requests that browsers may send. DNS rebinding: a foreign site's name points
    # at this machine, and its script sends requests. An address is not a name.
    #
    # @api private
    module HostField
      FORM = /\A(?:\[(?<v6>[^\]]+)\]|(?<name>[^:\[\]]+))(?::\d+)?\z/
      private_constant :FORM

      # @param host [String, nil]
      # @param names [Array<String>] allowed besides `localhost` and addresses, in lower case
      # @return [Boolean] whether no foreign site can have caused it
      def self.own?(host, names = [])
        match = FORM.match(host.to_s) or return false
        name = (match[:v6] || match[:name]).downcase
        name == "localhost" || names.include?(name) || (IPAddr.new(name) && true)
      rescue IPAddr::Error
        false
      end
    end
  end
end
