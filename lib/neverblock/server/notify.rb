# frozen_string_literal: true

require "socket"

module NB
  class Server
    # Tells systemd how the service is (sd_notify(3)); does nothing where there is no systemd.
    #
    # @api private
    class Notify
      def initialize(path = ENV.fetch("NOTIFY_SOCKET", nil))
        @path = path&.sub(/\A@/, "\0")
      end

      # @see https://www.freedesktop.org/software/systemd/man/sd_notify.html
      def ready = send("READY=1\nMAINPID=#{Process.pid}")
      # @see #ready
      def stopping = send("STOPPING=1")
      # @see #ready
      def reloading = send("RELOADING=1")
      # @see #ready
      def watchdog = send("WATCHDOG=1")
      # @param text [String] one line for `systemctl status`
      def status(text) = send("STATUS=#{text}")

      private

      def send(state)
        return unless @path

        socket = Socket.new(:UNIX, :DGRAM)
        socket.send(state, 0, Addrinfo.unix(@path))
      rescue SystemCallError
        nil # a manager that is gone shall not take the service with it
      ensure
        socket&.close
      end
    end
  end
end
