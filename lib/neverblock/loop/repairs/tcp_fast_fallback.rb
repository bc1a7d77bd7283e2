# frozen_string_literal: true

require "socket"

# TCPSocket.new and Socket.tcp by host name. Since Ruby 3.4, Happy Eyeballs waits for names and
# connections in rb_thread_fd_select or on threads of its own: no hook is called, and the whole
# thread stops (Bug #21270). Without fast fallback the hooks are called as before.
module NB
  module Repairs
    # Hosts that Ruby does not look up, except those of IPv6.
    ADDRESS = /\A(?:(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!\z)|\z)){4}|<any>|<broadcast>|)\z/
    private_constant :ADDRESS

    # @return [Boolean] whether Ruby would race several addresses, which then name getaddrinfo(3) in
    #   their errors
    # @api private
    def self.fast_fallback?(arguments, options)
      return false unless options.fetch(:fast_fallback, true) && arguments.drop(2).none?

      host = arguments.first
      !host.is_a?(String) || !host.ascii_only? ||
        !(host.match?(ADDRESS) || host.match?(/\A[^%]*:[^%]*\z/))
    end

    repair(TCPSocket, :initialize) do |original|
      proc do |*arguments, **options|
        next __send__(original, *arguments, **options) unless Repairs.loop_here

        begin
          __send__(original, *arguments, **options, fast_fallback: false)
        rescue Socket::ResolutionError => error
          raise if error.message.frozen? || !Repairs.fast_fallback?(arguments, options)

          raise error.tap { error.message.sub!("getaddrinfo: ", "getaddrinfo(3): ") }
        end
      end
    end

    repair(Socket.singleton_class, :tcp_fast_fallback) do |original|
      proc { Repairs.loop_here ? false : __send__(original) }
    end
  end
end
