# frozen_string_literal: true

require "socket"

module NB
  # Says in words what a fiber waits for, for each of {Scheduler#waits}. It runs no code of the
  # program, such as an object's own `inspect`, and reveals nothing that an object holds.
  #
  # @api private
  module Subject
    EVENTS = {"readable" => 1, "priority" => 2, "writable" => 4}.freeze
    # Classes whose own `inspect` tells where they are, and nothing else.
    TELLING = [IO, Thread, Fiber].to_h { |kind| [kind, kind.instance_method(:inspect)] }.freeze
    # An object's class and address.
    PLAIN = Kernel.instance_method(:to_s)
    private_constant :EVENTS, :TELLING, :PLAIN

    class << self
      # @param wait [Hash]
      # @return [String]
      # @scheduling never waits
      # @thread any
      def of(wait)
        case wait[:kind]
        when :io then wait[:fds].map { |fd, mask| "#{events(mask)} fd #{fd}#{peer(fd)}" }.join(", ")
        when :select then select(wait[:blocker])
        when :sleep then wait[:timeout] ? "sleep" : "sleep without end, or a signal"
        when :block then lock(wait[:blocker])
        when :resolve then "the address of #{wait[:blocker]}"
        when :process then "a child process"
        when :offload then "an offload thread"
        when :run then "the other fibers (NB.run)"
        else wait[:kind].to_s
        end
      end

      private

      def select(ios)
        named = ios.first(5).map { |io| tell(io) }
        "one of #{ios.size} IOs: [#{named.join(", ")}]"
      end

      def lock(blocker)
        return "a lock of Ruby's own, such as that of a require" if blocker.nil?

        held = blocker.is_a?(Thread::Mutex) && blocker.owned?
        "#{tell(blocker)}#{" (held by the current fiber)" if held}"
      end

      def tell(object)
        _, telling = TELLING.find { |kind, _| kind === object }
        (telling || PLAIN).bind_call(object)
      end

      def events(mask)
        EVENTS.filter_map { |name, bit| name if mask.anybits?(bit) }.join("/")
      end

      def peer(fd)
        io = borrowed(fd)
        " (#{io.local_address.inspect_sockaddr} -> #{io.remote_address.inspect_sockaddr})"
      rescue SystemCallError, ArgumentError, SocketError
        ""
      end

      # The fd is another IO's. An exception from outside, such as a Timeout's, must not come before
      # this one gives it up: the collector would close a live connection.
      def borrowed(fd)
        Thread.handle_interrupt(Object => :never) do
          BasicSocket.for_fd(fd).tap { |io| io.autoclose = false }
        end
      end
    end
  end
end
