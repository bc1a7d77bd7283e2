# frozen_string_literal: true

require "socket"
require_relative "checks"
require_relative "errors"

module NB
  class Server
    # Tells systemd the state of the service (sd_notify(3)). Does nothing without systemd.
    #
    # @api private
    class Notify
      # The variables of systemd: where to, within how many µs, and whom it watches.
      NAMES = %w[NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID].freeze
      private_constant :NAMES

      # @return [Float, nil] seconds between two calls of {#watchdog}; nil: nobody watches
      attr_reader :interval

      # @param environment [Hash{String=>String}]
      # @raise [SetupError] if they are not what systemd sets
      def initialize(environment = ENV)
        @path, limit, watched = environment.values_at(*NAMES).map { |text| text unless text == "" }
        @address = Addrinfo.unix(@path.sub(/\A@/, "\0")) if @path
        @interval = Checks.integer("WATCHDOG_USEC", limit, 1..(2**62)) / 2e6 if
          limit && (watched.nil? || watched.to_i == Process.pid)
      rescue ArgumentError => error # of Addrinfo, for a path that is too long
        raise SetupError, error.message.sub(/\A(?!WATCHDOG_USEC)/, "NOTIFY_SOCKET: ")
      end

      # @see https://www.freedesktop.org/software/systemd/man/sd_notify.html
      def ready = send("READY=1\nMAINPID=#{Process.pid}")
      # @see #ready
      def stopping = send("STOPPING=1")

      # @see #ready
      def reloading
        now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)
        send("RELOADING=1\nMONOTONIC_USEC=#{now}")
      end

      # @see #ready
      def watchdog = @interval && send("WATCHDOG=1")

      # Runs the block, and calls {#watchdog} meanwhile, on a thread that has ended when this
      # returns.
      #
      # @return what the block returns
      def feed
        return yield unless @interval

        feeder = Thread.new do
          loop do
            watchdog
            sleep @interval
          end
        end
        yield
      ensure
        feeder&.kill&.join
      end

      # @param text [String] one line for `systemctl status`
      def status(text) = send("STATUS=#{text}")

      private

      def send(state)
        return unless @address

        socket = Socket.new(:UNIX, :DGRAM)
        # Never waits: otherwise a manager that does not read would hold the service up.
        socket.sendmsg_nonblock(state, 0, @address, exception: false)
      rescue SystemCallError
        nil # a manager that is gone must not take the service with it
      ensure
        socket&.close
      end
    end
  end
end
