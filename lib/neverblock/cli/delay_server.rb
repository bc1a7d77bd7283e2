# frozen_string_literal: true

require_relative "../native"

module NB
  # An HTTP server in C that answers every request after a delay. It plays the slow service in an
  # experiment, and costs so little that the experiment does not measure it.
  #
  # `GET /?ms=250&bytes=1000` is answered after 250 ms with 1,000 bytes; the defaults are the
  # server's own `delay:` and `body_bytes:`. It speaks HTTP/1.1 and 1.0 with keep-alive, answers
  # pipelined requests in order, drops request bodies, and answers malformed requests with 400. On
  # systems without epoll, {DelayServerPortable} does the same, more slowly.
  #
  # @example Twenty requests of a second each, from threads
  #   server = NB::DelayServer.new(delay: 1.0)
  #   serving = Thread.new { server.run }
  #   Array.new(20) { Thread.new { Net::HTTP.get(URI("http://127.0.0.1:#{server.port}/")) } }
  #     .each(&:join)
  #   server.stop
  #   serving.join
  #   server.close
  class DelayServer
    unless method_defined?(:run) # a build without epoll
      require_relative "delay_server_portable"
      include DelayServerPortable
    end

    # The maximum delay, in seconds.
    MAX_DELAY = 86_400.0
    # The maximum body length.
    MAX_BODY_BYTES = 1_000_000_000_000

    # Listens at once: connections queue until {#run}.
    #
    # @param bind [String] address or host name to listen on
    # @param port [Integer] 0 (the kernel chooses) to 65535
    # @param delay [Numeric] seconds before an answer, 0 to 86400, for requests without `ms=`
    # @param body_bytes [Integer] length of the answer, 0 to 1000000000000, for requests without
    #   `bytes=`
    # @param close [Boolean] close the connection after each answer, even if the client asks to keep
    #   it
    # @param shared [Boolean] let other servers share the port (SO_REUSEPORT)
    # @raise [ArgumentError] for a value out of range
    # @raise [SystemCallError] if it cannot listen there
    # @scheduling may wait, for a host name to be looked up
    def initialize(bind: "127.0.0.1", port: 0, delay: 0, body_bytes: 4, close: false, shared: false)
      port = in_range(:port, port, 0..65_535) { |one| Integer(one, exception: false) }
      delay = in_range(:delay, delay, 0..MAX_DELAY) { |one| Float(one, exception: false) }
      body_bytes = in_range(:body_bytes, body_bytes, 0..MAX_BODY_BYTES) do |one|
        Integer(one, exception: false)
      end
      listen(String(bind), port, (delay * 1e9).round, body_bytes, close, shared)
    end

    private

    def in_range(name, value, range)
      number = yield value
      return number if number && range.cover?(number)

      raise ArgumentError, "#{name}: must be from #{range.min} to #{range.max}, got: " \
                           "#{value.inspect}"
    end
  end
end
