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

      def ready = send("READY=1\nMAINPID=#{Process.pid}")
      def stopping = send("STOPPING=1")
      def reloading = send("RELOADING=1")
      def watchdog = send("WATCHDOG=1")
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
