# frozen_string_literal: true

require "ipaddr"
require "socket"

module NB
  class Server
    # Checks the Host field against DNS rebinding: a foreign site lets its name resolve to this
    # machine, so that its script in a local browser can send requests here. Their Host is that
    # name; an address in the Host is safe.
    #
    # @api private
    module HostField
      FORM = /\A(?:\[(?<v6>[^\]]+)\]|(?<name>[^:\[\]]+?)\.?)(?::\d+)?\z/
      # The names of the loopback in Debian's and others' /etc/hosts.
      LOCAL = %w[localhost localhost.localdomain ip6-localhost ip6-loopback].freeze
      private_constant :FORM, :LOCAL

      # @return [Array<String>] the name of this machine, in lower case, with and without its domain
      def self.machine
        name = Socket.gethostname.downcase
        [name, name[/\A[^.]+/]].compact.uniq
      end

      # @param host [String, nil]
      # @param names [Array<String>] allowed besides those of the loopback and addresses, in lower
      #   case
      # @return [Boolean] whether no foreign site can have caused it
      def self.own?(host, names = [])
        match = FORM.match(host.to_s) or return false
        name = (match[:v6] || match[:name]).downcase
        LOCAL.include?(name) || names.include?(name) || (IPAddr.new(name) && true)
      rescue IPAddr::Error
        false
      end
    end
  end
end
