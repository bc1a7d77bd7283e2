# frozen_string_literal: true

require "json"
require "timeout"
require_relative "control_address"
require_relative "exposition"
require_relative "text"

module NB
  class Server
    # Sockets that answer GET /stats with JSON, GET /requests with what runs, GET /snapshot with all
    # that is known, GET /metrics with the numbers for Prometheus and GET /ready with 200 or 503. In
    # threads of their own, so that they answer also when the loop does not. By TCP there is neither
    # /requests nor /snapshot: they tell paths.
    #
    # @api private
    class Control
      # Who may ask at a time at one address, for how many seconds, and with how large a head.
      ASKERS = 64
      PATIENCE = 5
      HEAD_BYTES = 16_384
      JSON_TYPE = "application/json"
      # What only those are told whom the file system lets in.
      LOCAL = %w[/requests /snapshot].freeze
      # Seconds in which an asker wants an answer: a busy master has time for it.
      ANSWER = 30
      private_constant :ASKERS, :PATIENCE, :HEAD_BYTES, :JSON_TYPE, :LOCAL, :ANSWER

      # @param addresses [String, Array<String>]
      # @param stats [#call] gives what /stats tells
      # @param ready [#call] gives true or false
      # @param requests [#call] gives what /requests tells
      # @param metrics [#call] gives what {Exposition#text} takes
      # @param snapshot [#call] gets the query, which {Snapshot.detail} takes, and gives what
      #   /snapshot tells
      def initialize(addresses, stats:, ready:, requests: -> { [] }, # rubocop:disable Metrics/ParameterLists
                     metrics: -> { {} }, snapshot: ->(_) { {} })
        @addresses = Array(addresses).map { |address| ControlAddress.new(address) }
        @answers = {"/stats" => stats, "/requests" => requests}
        @ready = ready
        @metrics = metrics
        @snapshot = snapshot
        @askers = {} # socket => its address
        @lock = Mutex.new
      end

      # Listens and answers on threads of its own.
      # @param own [Boolean] see {SocketFile.free}
      # @return [self]
      # @raise [SystemCallError, SocketError]
      def start(own: false)
        @pid = Process.pid
        @addresses.each { |address| address.open(own: own) }
        @threads = @addresses.map { |address| Thread.new { loop { accept(address) } } }
        self
      rescue SystemCallError, SocketError
        stop
        raise
      end

      # Stops answering and removes its files.
      # @return [void]
      def stop
        @threads&.each(&:kill)
        @addresses.each { |address| @pid == Process.pid ? address.close : address.forget }
      end

      # In a forked worker: the sockets are the master's.
      # @return [void]
      def forget
        @addresses.each(&:forget)
        @askers.each_key(&:close)
        @threads = nil
      end

      # @return [Array<Integer>] of those that listen by TCP
      def ports = @addresses.reject(&:local?).map(&:port)

      # What a control socket answers to GET path.
      #
      # @param within [Numeric] seconds
      # @return [String]
      # @raise [ArgumentError] for an address that is none
      # @raise [SystemCallError, SocketError, EOFError] if there is no answer, or none in time
      def self.ask(address, path = "/stats", within: ANSWER)
        exchange(address, path, within: within).last
      end

      # @return [Array(Integer, String)] status and body; otherwise as {ask}
      def self.exchange(address, path, within: ANSWER)
        socket = nil
        place = ControlAddress.new(address)
        answer = ::Timeout.timeout(within, Errno::ETIMEDOUT, "no answer in #{within} s") do
          socket = place.connect
          socket.write("GET #{path} HTTP/1.0\r\n\r\n")
          socket.read
        end
        _, status, body = *answer.b.match(%r{\AHTTP/\d\.\d (\d{3}).*?\r\n\r\n(.*)\z}m)
        body ? [Integer(status, 10), Text.utf8(body)] : raise(EOFError, "what is there is no HTTP")
      ensure
        socket&.close
      end

      private

      # Each asker has a thread: one that says nothing, or does not read, holds nobody up.
      def accept(address)
        socket = address.server.accept
        return socket.close if @askers.each_value.count(address) >= ASKERS

        # Not in place: a fork in this moment reads it.
        @lock.synchronize { @askers = @askers.merge(socket => address) }
        Thread.new { serve(socket, address.local?) }
      rescue IOError, SystemCallError
        sleep 0.1 # no fds, or the end is near
      end

      def serve(socket, local)
        ::Timeout.timeout(PATIENCE) { answer(socket, local) }
      rescue SystemCallError, IOError, ::Timeout::Error
        nil # the asker went away, or takes too long
      ensure
        @lock.synchronize { @askers = @askers.except(socket) }
        socket.close
      end

      def answer(socket, local)
        head = read_head(socket)
        path = head[/\AGET ([^?\s]+)/, 1]
        status, body, type = local || !LOCAL.include?(path) ? reply(path, head) : unknown
        body = "#{JSON.generate(body)}\n" unless type
        socket.write("HTTP/1.0 #{status}\r\nContent-Type: #{type || JSON_TYPE}\r\n\r\n", body)
        socket.close_write # the end also when a fork in this moment has given a worker a copy
      end

      # All of it: what is not read when the socket closes resets a TCP connection.
      def read_head(socket)
        head = +""
        while (line = socket.gets("\r\n", HEAD_BYTES)) && head.bytesize < HEAD_BYTES
          head << line
          break if line == "\r\n"
        end
        head
      end

      def reply(path, head)
        case path
        when "/ready" then readiness(@ready.call)
        when "/metrics" then exposition(Exposition.for(head[/^accept:(.*)\r$/i, 1]))
        when "/snapshot" then ["200 OK", @snapshot.call(head[/\AGET [^?\s]+\?(\S*)/, 1])]
        when *@answers.keys then ["200 OK", @answers[path].call]
        else unknown
        end
      rescue ArgumentError => error
        ["400 Bad Request", {error: Text.utf8(error.message)}]
      rescue StandardError => error
        ["500 Internal Server Error", {error: "#{error.class}: #{Text.utf8(error.message)}"}]
      end

      def unknown
        there_are = "there are /stats /metrics /ready, and by unix:// #{LOCAL.join(" ")}"
        ["404 Not Found", {error: there_are}]
      end

      def exposition(form) = ["200 OK", form.text(@metrics.call), form.type]

      def readiness(ready)
        [ready ? "200 OK" : "503 Service Unavailable", {ready: ready}]
      end
    end
  end
end
