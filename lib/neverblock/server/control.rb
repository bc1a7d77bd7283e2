# frozen_string_literal: true

require "json"
require "timeout"
require_relative "../loop/io_users"
require_relative "control_address"
require_relative "exposition"
require_relative "host_field"
require_relative "text"

module NB
  class Server
    # Sockets that answer GET /stats with JSON, /requests with the running requests, /snapshot with
    # all that is known, /metrics with numbers for Prometheus, and /ready with 200 or 503. They have
    # their own threads, so they answer even when the loop does not. Over TCP there is neither
    # /requests nor /snapshot, because these contain paths. Load balancers ask by HEAD or OPTIONS,
    # too, and look at the status only.
    #
    # @api private
    class Control
      # How many clients one address serves at a time; how many seconds each has for its request
      # head, and the size limit of that.
      ASKERS = 64
      PATIENCE = 5
      HEAD_BYTES = 16_384
      JSON_TYPE = "application/json"
      # Only /ready answers other methods: HAProxy asks by OPTIONS by default.
      METHODS = %r{\A(GET|HEAD|OPTIONS(?= /ready[? ])) ([^?\s]+)}.freeze
      # Served only over UNIX sockets, where the file system decides who has access.
      LOCAL = %w[/requests /snapshot].freeze
      # Seconds that a client waits for an answer, and has to read it; time enough for a busy
      # master, and for all fibers of a loop that computes.
      ANSWER = 30
      private_constant :METHODS, :ASKERS, :PATIENCE, :HEAD_BYTES, :JSON_TYPE, :LOCAL, :ANSWER

      # @param addresses [String, Array<String>]
      # @param stats [#call] returns the content of /stats
      # @param ready [#call] returns true or false
      # @param requests [#call] returns the content of /requests
      # @param metrics [#call] returns what {Exposition#text} takes
      # @param snapshot [#call] gets the query for {Snapshot.detail}, and returns the content of
      #   /snapshot
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

      # Listens and answers, on threads of its own.
      # @param own [Boolean] see {SocketFile.free}
      # @return [self]
      # @raise [SystemCallError, SocketError]
      def start(own: false)
        @pid = Process.pid
        @addresses.each { |address| address.open(own: own) }
        @threads = @addresses.map { |address| Thread.new { keep_accepting(address) } }
        self
      rescue SystemCallError, SocketError, ThreadError
        stop
        raise
      end

      # Stops answering and removes its files.
      # @return [void]
      def stop
        @threads&.each(&:kill)
        remove_files
        @addresses.each(&:forget)
      end

      # Removes its files, unless they are another process's. May be called in a signal handler.
      # @return [void]
      def remove_files
        @addresses.each(&:remove_file) if @pid == Process.pid
      end

      # For a forked worker: the sockets are the master's.
      # @return [void]
      def forget
        @addresses.each(&:forget)
        @askers.each_key(&:close)
        @threads = nil
      end

      # @return [Array<Integer>] the ports of the TCP addresses
      def ports = @addresses.reject(&:local?).map(&:port)

      # Asks a control socket for a path.
      #
      # @param within [Numeric] seconds
      # @return [String]
      # @raise [ArgumentError] for an invalid address
      # @raise [SystemCallError, SocketError, EOFError] if there is no answer in time
      def self.ask(address, path = "/stats", within: ANSWER)
        exchange(address, path, within: within).last
      end

      # @return [Array(Integer, String)] status and body; the rest is as for {ask}
      def self.exchange(address, path, within: ANSWER)
        socket = nil
        place = ControlAddress.new(address, "address")
        answer = ::Timeout.timeout(within, Errno::ETIMEDOUT, "no answer in #{within} s") do
          socket = place.connect
          socket.write("GET #{path} HTTP/1.0\r\n\r\n")
          socket.read
        end
        _, status, body = *answer.b.match(%r{\AHTTP/\d\.\d (\d{3}).*?\r\n\r\n(.*)\z}m)
        raise EOFError, "the answer is not HTTP" unless body

        [Integer(status, 10), body.force_encoding(Encoding::UTF_8).scrub("?")]
      ensure
        socket&.close
      end

      private

      def keep_accepting(address)
        IOUsers.only(address.server)
        loop { accept(address) }
      end

      # Each client has a thread, so one that sends or reads nothing holds nobody up.
      def accept(address)
        socket = address.server.accept
        return socket.close if @askers.each_value.count(address) >= ASKERS

        # Not modified in place, because a fork at this moment reads it.
        @lock.synchronize { @askers = @askers.merge(socket => address) }
        Thread.new { serve(socket, address.local?) }
      rescue IOError, SystemCallError
        sleep 0.1 # no fds are free, or the process is about to end
      rescue ThreadError
        dismiss(socket) # the system allows no more threads
      end

      def serve(socket, local)
        head = ::Timeout.timeout(PATIENCE) { read_head(socket) }
        ::Timeout.timeout(ANSWER) { answer(socket, head, local) }
      rescue SystemCallError, IOError, ::Timeout::Error, ThreadError
        nil # the client went away, or takes too long; or there is no thread for the timeout
      ensure
        dismiss(socket)
      end

      def dismiss(socket)
        @lock.synchronize { @askers = @askers.except(socket) }
        socket.close
      end

      def answer(socket, head, local)
        method, path = head.match(METHODS)&.captures
        status, body, type = foreign?(socket, head, path) ? refusal : reply(path, head, local)
        socket.write("HTTP/1.0 #{status}\r\nContent-Type: #{type || JSON_TYPE}\r\n\r\n",
                     *(body unless method == "HEAD"))
        socket.close_write # ends the stream even if a worker forked just now holds a copy
      end

      # A browser on this machine names the site whose script asks. Programs may send no Host.
      # /ready tells nothing that a site could use, and load balancers may name their backend.
      def foreign?(socket, head, path)
        host = head[/^host:[ \t]*([^\r\n]*)\r$/i, 1]
        return false if host.nil? || path == "/ready"

        address = socket.local_address
        address = address.ipv6_to_ipv4 || address # ::ffff:127.0.0.1, of a listener at ::
        (address.ipv4_loopback? || address.ipv6_loopback?) &&
          !HostField.own?(host.strip, HostField.machine)
      end

      def refusal
        ["403 Forbidden", failure("the Host must be localhost, the name of this machine, or an " \
                                  "address"), JSON_TYPE]
      end

      # Reads everything: unread data at the close would reset a TCP connection.
      def read_head(socket)
        head = +""
        while (line = socket.gets("\r\n", HEAD_BYTES)) && head.bytesize < HEAD_BYTES
          head << line
          break if line == "\r\n"
        end
        head
      end

      # A status, a text, and its type unless it is JSON.
      def reply(path, head, local)
        status, body, type = local || !LOCAL.include?(path) ? found(path, head) : unknown
        [status, type ? body : "#{JSON.generate(body)}\n", type]
      rescue ArgumentError => error
        ["400 Bad Request", failure(error.message)]
      rescue StandardError => error
        ["500 Internal Server Error", failure("#{error.class}: #{error.message}")]
      end

      def failure(words) = "#{JSON.generate({error: Text.utf8(words)})}\n"

      def found(path, head)
        case path
        when "/ready" then readiness(@ready.call)
        when "/metrics" then exposition(Exposition.for(head[/^accept:(.*)\r$/i, 1]))
        when "/snapshot" then ["200 OK", @snapshot.call(head[/\A[A-Z]+ [^?\s]+\?(\S*)/, 1])]
        when *@answers.keys then ["200 OK", @answers[path].call]
        else unknown
        end
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
