# frozen_string_literal: true

require "net/http"
require_relative "connection_pool"

module NB
  # HTTP clients.
  module HTTP
    # A client for one host that keeps its connections, for any number of fibers and threads.
    #
    # @example
    #   client = NB::HTTP.persistent("http://127.0.0.1:8080", size: 20)
    #   NB.map(1..1_000, concurrency: 50) { |i| client.get("/posts/#{i}").body }
    # @param (see Persistent#initialize)
    # @return [Persistent]
    # @scheduling never waits
    def self.persistent(...) = Persistent.new(...)

    # Net::HTTP with keep-alive, shared. Each request has a connection to itself. At most `size`
    # connections are open; further requests wait for their turn.
    #
    # Before a request, a connection is opened anew if the server has closed or reset it, if it was
    # idle for too long, or if it received something unasked. If a connection breaks during a
    # request, even in mid-response, Net::HTTP repeats the request once on a new connection,
    # provided that repeating is safe (GET, HEAD, PUT, DELETE and the like) and no block has
    # received a part of the response. POST and PATCH raise EOFError or Errno::ECONNRESET, because
    # the server may have done what they ask for. If nothing listens any more, every request raises
    # Errno::ECONNREFUSED, and a later request tries again. A connection whose response was not read
    # to its end, for whatever reason, is closed. (The net-http of Ruby 3.1 takes a cut-off body for
    # a complete one.)
    class Persistent
      # @return [URI::HTTP] the server it talks to
      attr_reader :uri

      # @param url [String, URI::HTTP] scheme, host and port; without a scheme http
      # @param size [Integer] the maximum number of connections, 1 or more
      # @param idle_timeout [Numeric] seconds after which an idle connection is not used again;
      #   choose less than the server's own limit
      # @param pool_timeout [Float, nil] seconds to wait for a free connection; nil: no limit
      # @yieldparam http [Net::HTTP] each one before it is opened: to set timeouts, TLS, a proxy
      # @raise [ArgumentError] if the url is not an HTTP URL
      # @scheduling never waits
      def initialize(url, size: 10, idle_timeout: 5, pool_timeout: 5.0, &configure)
        @uri = parse(url)
        @idle_timeout = Check.seconds("idle_timeout:", idle_timeout) || Float::INFINITY
        @configure = configure
        @pool = ConnectionPool.new(size: size, timeout: pool_timeout, close: :finish.to_proc,
                                   alive: method(:quiet?), name: host) { open }
      end

      # Sends a request and reads the response.
      #
      # @param request [Net::HTTPRequest]
      # @param body [String, nil]
      # @yieldparam response [Net::HTTPResponse] before its body is read, for `read_body` in pieces
      # @return [Net::HTTPResponse] with its body
      # @raise [NB::PoolTimeoutError] if no connection became free in time
      # @raise [NB::ClosedError] after {#close}
      # @raise what Net::HTTP raises
      # @scheduling may wait
      # @thread any
      def request(request, body = nil, &block)
        @pool.with do |http|
          response = block ? in_pieces(http, request, body, &block) : http.request(request, body)
          whole = true
          response
        ensure
          @pool.discard unless whole
        end
      end

      # @!macro [new] sends
      #   @param path [String] with the query, such as "/posts?page=2"
      #   @param headers [Hash{String=>String}, nil]
      #   @return [Net::HTTPResponse] (see #request)
      #   @scheduling may wait
      #   @thread any

      # @macro sends
      def get(path, headers = nil, &block) = request(::Net::HTTP::Get.new(path, headers), &block)

      # @macro sends
      def head(path, headers = nil) = request(::Net::HTTP::Head.new(path, headers))

      # @macro sends
      def delete(path, headers = nil) = request(::Net::HTTP::Delete.new(path, headers))

      # @macro sends
      def post(path, body, headers = nil) = request(::Net::HTTP::Post.new(path, headers), body)

      # @macro sends
      def put(path, body, headers = nil) = request(::Net::HTTP::Put.new(path, headers), body)

      # @macro sends
      def patch(path, body, headers = nil) = request(::Net::HTTP::Patch.new(path, headers), body)

      # Closes all connections: the idle ones now, the others after their request.
      #
      # @return [self]
      # @scheduling may wait
      # @thread any
      def close
        @pool.close
        self
      end

      # @return [Hash{Symbol=>Integer, Float}] see {ConnectionPool#stats}
      # @scheduling never waits
      # @thread any
      def stats = @pool.stats

      # @return [String] e.g. `#<NB::HTTP::Persistent http://127.0.0.1:8080 in_use=1 idle=2>`
      def inspect
        "#<#{self.class.name} #{@uri} in_use=#{stats[:in_use]} idle=#{stats[:idle]}>"
      end

      private

      def host = "#{@uri.hostname}:#{@uri.port}"

      def parse(url)
        uri = URI(url.to_s.include?("://") ? url.to_s : "http://#{url}")
        return uri if uri.is_a?(URI::HTTP) && !uri.hostname.to_s.empty?

        refuse(url)
      rescue URI::InvalidURIError
        refuse(url)
      end

      def refuse(url)
        raise ArgumentError, "not an HTTP URL with a host: #{url.inspect}"
      end

      # Whether nothing unasked has arrived: the end of the stream, a 408 before it, or the rest of
      # a response that was longer than announced. The next request would take that for its own
      # response.
      def quiet?(http)
        socket = http.instance_variable_get(:@socket)
        return false if socket.closed? # OpenSSL would read from the new owner of that descriptor
        return http.started? unless socket.io.respond_to?(:read_nonblock) # WebMock's

        unread(socket).zero? && socket.io.read_nonblock(1, exception: false) == :wait_readable
      end

      # Before net-protocol 0.2, there is only the String.
      def unread(socket)
        return socket.__send__(:rbuf_size) if socket.respond_to?(:rbuf_size, true)

        socket.instance_variable_get(:@rbuf).bytesize
      end

      # What the block has received it must not receive again.
      def in_pieces(http, request, body)
        retries = http.max_retries
        http.request(request, body) do |response|
          http.max_retries = 0
          yield response
        end
      ensure
        http.max_retries = retries
      end

      def open
        http = ::Net::HTTP.new(@uri.hostname, @uri.port)
        http.use_ssl = @uri.is_a?(URI::HTTPS)
        http.keep_alive_timeout = @idle_timeout
        http.ignore_eof = false if http.respond_to?(:ignore_eof=) # a cut-off body is an error
        @configure&.call(http)
        http.start
      end
    end
  end
end
