# frozen_string_literal: true

require "socket"

# TCPSocket.new and Socket.tcp by host name. Since Ruby 3.4, Happy Eyeballs waits for names and
# connections in rb_thread_fd_select or on threads of its own: no hook is called, and the whole
# thread stops (Bug #21270). Without fast fallback the hooks are called as before, but Ruby then
# passes over resolv_timeout, so that is kept here.
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

    # Looks the name up within a time; Ruby asks for it again, and gets the same answer.
    #
    # @param where [String] host and port, as Ruby names them from 4.0 on
    # @return [void]
    # @raise [Errno::ETIMEDOUT, IO::TimeoutError, Socket::ResolutionError]
    # @scheduling may wait
    # @api private
    def self.resolve_within(seconds, host, where)
      return if !host.is_a?(String) || whole?(host)

      late = Errno::ETIMEDOUT.new("user specified timeout")
      late = IO::TimeoutError.new("user specified timeout for #{where}") if RUBY_VERSION >= "4"
      loop_here.timeout_after(seconds, late) { loop_here.address_resolve(host) } ||
        Addrinfo.getaddrinfo(host, nil, nil, :STREAM, nil, Socket::AI_NUMERICHOST) # its own error
    end

    repair(TCPSocket, :initialize) do |original|
      proc do |*arguments, **options|
        next __send__(original, *arguments, **options) unless Repairs.loop_here

        begin
          patience = options[:resolv_timeout]
          Repairs.resolve_within(patience, arguments.first, arguments.first(2).join(" port ")) if
            !patience.nil? && Repairs.fast_fallback?(arguments, options)
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

    # Socket.tcp counts from its beginning, and has no time left rather than refuse a negative one.
    #
    # @return [void]
    # @scheduling may wait
    # @api private
    def self.resolve_for_tcp(place, patience, fast_fallback)
      host = place.first
      return unless patience && loop_here && fast_fallback?([host], {fast_fallback: fast_fallback})

      resolve_within([0.0 + patience, 0.0].max, host, place.join(":"))
    end

    # With Ruby's own parameters, in the loop and outside. If the caller names no fast_fallback, it
    # would be true without a loop.
    FROM_34 = lambda do |original|
      proc do |host, port, local_host = nil, local_port = nil, connect_timeout: nil,
               resolv_timeout: nil, fast_fallback: ((own = true) && tcp_fast_fallback), &block|
        Repairs.resolve_for_tcp([host, port], resolv_timeout, own || fast_fallback)
        __send__(original, host, port, local_host, local_port, connect_timeout: connect_timeout,
                 resolv_timeout: resolv_timeout, fast_fallback: fast_fallback, &block)
      end
    end

    FROM_40 = lambda do |original|
      proc do |host, port, local_host = nil, local_port = nil, connect_timeout: nil,
               resolv_timeout: nil, open_timeout: nil,
               fast_fallback: ((own = true) && tcp_fast_fallback), &block|
        Repairs.resolve_for_tcp([host, port], resolv_timeout, own || fast_fallback)
        __send__(original, host, port, local_host, local_port, connect_timeout: connect_timeout,
                 resolv_timeout: resolv_timeout, open_timeout: open_timeout,
                 fast_fallback: fast_fallback, &block)
      end
    end
    private_constant :FROM_34, :FROM_40

    repair(Socket.singleton_class, :tcp, &(RUBY_VERSION < "4" ? FROM_34 : FROM_40))
  end
end
