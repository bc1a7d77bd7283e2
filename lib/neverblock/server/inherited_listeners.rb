# frozen_string_literal: true

require "uri"
require_relative "binding"

module NB
  class Server
    # The listeners of the program before USR2, in place of a {Server} that cannot be made: for the
    # workers of that program, and for the next one. It needs no certificate of theirs.
    #
    # @api private
    class InheritedListeners
      # @param addresses [Array<String>] {Handover#listeners}
      def initialize(addresses)
        @bindings = addresses.to_h { |address| [address, Binding.parse(inner(address))] }
      end

      # @return [self]
      def listen
        @bindings.each_value(&:open)
        self
      end

      # @return [void]
      def close = @bindings.each_value(&:close)
      # @return [void]
      def refuse = @bindings.each_value(&:refuse)
      # @return [Boolean] false: whoever waits is for the workers
      def waited_for? = false
      # @return [Hash{String=>Integer}] as {Server#listener_fds}
      def listener_fds = @bindings.transform_values { |binding| binding.io.fileno }

      private

      # See {Tls#inheritance}.
      def inner(address)
        return address unless address.start_with?("ssl://")

        URI.decode_www_form(address.split("?", 2).last).to_h.fetch("listener")
      end
    end
  end
end
