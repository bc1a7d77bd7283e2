# frozen_string_literal: true

require "socket"

# TCPSocket.new and Socket.tcp by host name. Since Ruby 3.4, Happy Eyeballs waits for names and
# connections in rb_thread_fd_select or on threads of its own: no hook is called, and the whole
# thread stops (Bug #21270). Without fast fallback the hooks are called as before, but the hook that
# looks up names is told of no timeout, so resolv_timeout and (from Ruby 4.0 on) open_timeout are
# kept here.
module NB
  module Repairs
    # Hosts that Ruby does not look up, except those of IPv6.
    ADDRESS = /\A(?:(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!\z)|\z)){4}|<any>|<broadcast>|)\z/
    private_constant :ADDRESS

    class << self
      # @return [Boolean] whether Ruby looks the host up
      # @api private
      def name?(host)
        !host.is_a?(String) || !host.ascii_only? ||
          !(host.match?(ADDRESS) || host.match?(/\A[^%]*:[^%]*\z/))
      end

      # @return [Boolean] whether Ruby would race several addresses, which then name getaddrinfo(3)
      #   in their errors
      # @api private
      def fast_fallback?(arguments, options)
        options.fetch(:fast_fallback, true) && arguments.drop(2).none? && name?(arguments.first)
      end

      # Looks the name up within resolv_timeout or open_timeout, which Ruby obeys for every name
      # from 4.0 on, and up to 3.4 only if it would race.
      #
      # @param place [Array] host and port
      # @param where [String] the same, as Ruby names them from 4.0 on
      # @return [Hash] the options, with what is left of open_timeout for the connection
      # @raise [Errno::ETIMEDOUT, IO::TimeoutError, Socket::ResolutionError]
      # @scheduling may wait
      # @api private
      def resolve_in_time(place, options, where)
        open, resolv, connect = options.values_at(:open_timeout, :resolv_timeout, :connect_timeout)
        return options if (open && (resolv || connect)) || !name?(place.first) # Ruby refuses both

        start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        resolve_within(open || resolv, place.first, where)
        return options unless open

        gone = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
        options.merge(open_timeout: [open - gone, 0.0].max)
      end

      # Ruby asks for the name again, and gets the same answer.
      #
      # @scheduling may wait
      # @api private
      def resolve_within(seconds, host, where)
        return if seconds.nil? || !host.is_a?(String) || whole?(host)

        late = Errno::ETIMEDOUT.new("user specified timeout")
        late = IO::TimeoutError.new("user specified timeout for #{where}") if RUBY_VERSION >= "4"
        loop_here.timeout_after(seconds, late) { loop_here.address_resolve(host) } ||
          Addrinfo.getaddrinfo(host, nil, nil, :STREAM, nil, Socket::AI_NUMERICHOST) # its own error
      end
    end

    repair(TCPSocket, :initialize) do |original|
      proc do |*arguments, **options|
        next __send__(original, *arguments, **options) unless Repairs.loop_here

        races = Repairs.fast_fallback?(arguments, options)
        begin
          where = arguments.first(2).join(" port ")
          options = Repairs.resolve_in_time(arguments, options, where) if
            races || RUBY_VERSION >= "4"
          __send__(original, *arguments, **options, fast_fallback: false)
        rescue Socket::ResolutionError => error
          raise if error.message.frozen? || !races

          raise error.tap { error.message.sub!("getaddrinfo: ", "getaddrinfo(3): ") }
        end
      end
    end

    repair(Socket.singleton_class, :tcp_fast_fallback) do |original|
      proc { Repairs.loop_here ? false : __send__(original) }
    end

    # Socket.tcp counts from its beginning, and has no time left rather than refuse a negative one.
    #
    # @return [Hash] the options, with what is left of open_timeout
    # @scheduling may wait
    # @api private
    def self.resolve_for_tcp(place, options)
      timeouts = options.slice(:resolv_timeout, :open_timeout).compact
      left = timeouts.transform_values { |seconds| [0.0 + seconds, 0.0].max }
      resolve_in_time(place, options.merge(left), place.join(":"))
    end

    # With Ruby's own parameters, in the loop and outside. If the caller names no fast_fallback, it
    # would be true without a loop.
    FROM_34 = lambda do |original|
      proc do |host, port, local_host = nil, local_port = nil, connect_timeout: nil,
               resolv_timeout: nil, fast_fallback: ((own = true) && tcp_fast_fallback), &block|
        timeouts = {connect_timeout: connect_timeout, resolv_timeout: resolv_timeout}
        Repairs.resolve_for_tcp([host, port], timeouts) if
          Repairs.loop_here && (own || fast_fallback)
        __send__(original, host, port, local_host, local_port, **timeouts,
                 fast_fallback: fast_fallback, &block)
      end
    end

    FROM_40 = lambda do |original|
      proc do |host, port, local_host = nil, local_port = nil, connect_timeout: nil,
               resolv_timeout: nil, open_timeout: nil,
               fast_fallback: ((own = true) && tcp_fast_fallback), &block|
        timeouts = {connect_timeout: connect_timeout, resolv_timeout: resolv_timeout,
                    open_timeout: open_timeout}
        timeouts = Repairs.resolve_for_tcp([host, port], timeouts) if
          Repairs.loop_here && (own || fast_fallback)
        __send__(original, host, port, local_host, local_port, **timeouts,
                 fast_fallback: fast_fallback, &block)
      end
    end
    private_constant :FROM_34, :FROM_40

    repair(Socket.singleton_class, :tcp, &(RUBY_VERSION < "4" ? FROM_34 : FROM_40))
  end
end
