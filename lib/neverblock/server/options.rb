# frozen_string_literal: true

require_relative "checks"

module NB
  class Server
    # The limits and timeouts of a server. All are on by default; `nil` or infinity turns a timeout
    # off.
    class Options
      # Name => [default, allowed values, meaning with its unit and what happens beyond it].
      TABLE = {
        fibers: [1024, 1..100_000, "requests that run at a time"],
        body_fibers: [nil, 0..100_000, "of them for requests whose body has not arrived; others " \
                                       "begin when their body has. nil: half of fibers"],
        queue: [16_384, 0..1_000_000, "connections that wait for a fiber; then accepting stops, " \
                                      "then 503"],
        queue_timeout: [30, :seconds, "maximum wait for a fiber; then 503"],
        backlog: [nil, 1..(2**31) - 1, "connections that wait to be accepted, for each listener; " \
                                       "the kernel lowers it to somaxconn. nil: 4096, or that " \
                                       "of an inherited listener"],
        connections: [nil, 1..10_000_000, "open connections; nil: the fd limit less 64"],
        requests_per_connection: [1_000_000, 1..(2**62), "then the connection closes"],
        header_timeout: [15, :seconds, "until a connection's first byte; then it closes. Also " \
                                       "from there to the end of the head; then 408"],
        body_timeout: [30, :seconds, "between two parts of a body; then 408"],
        body_bytes_per_second: [500, 0..(2**40), "minimum speed of a body, on average after " \
                                                 "body_timeout; slower: 408. 0: none"],
        idle_timeout: [65, :seconds, "between two requests; then the connection closes"],
        write_timeout: [30, :seconds, "while the client reads nothing; then the connection closes"],
        request_timeout: [60, :seconds, "until the response begins; then RequestTimeoutError, 503"],
        request_line_bytes: [8192, 64..1_048_576, "beyond it 414"],
        header_bytes: [65_536, 256..4_194_304, "the whole head; beyond it 431"],
        header_count: [100, 1..10_000, "beyond it 431"],
        body_bytes: [64 * 1024 * 1024, 0..(2**62), "beyond it 413"],
        body_memory_bytes: [112 * 1024, 0..(2**40), "a larger body may go to a temporary file"],
        bodies_memory_bytes: [64 * 1024 * 1024, 0..(2**40),
                              "memory for larger bodies, a sixteenth for one; beyond it a file"],
        bodies_file_bytes: [nil, 0..(2**62), "temporary files of all bodies together; beyond it " \
                                             "503. nil: sixteen times body_bytes"],
        body_streaming: [false, :boolean, "a body larger than that, or of unknown length, is " \
                                          "read while it arrives, not from a file"],
        cancel_when_gone: [false, :boolean, "a client that leaves cancels its request"],
        early_hints: [false, :boolean, "whether rack.early_hints is offered"],
        proxy_protocol: [false, :boolean, "each connection begins with the PROXY protocol's " \
                                          "header, version 1 or 2, which names the client"],
        collect_when_idle: [false, :boolean, "full garbage collections wait until no request " \
                                    "runs, at most 5 s (Ruby 3.4)"]
      }.freeze

      # The names of those that are true or false.
      SWITCHES = TABLE.select { |_, (_, allowed)| allowed == :boolean }.keys.freeze

      # Defaults that differ in a Rails application: its pages may take as long as under Puma.
      RAILS = {request_timeout: nil}.freeze

      # @param values any of {TABLE}'s names
      # @raise [ArgumentError] for an unknown name or a value out of range
      def initialize(**values)
        unknown = values.keys - TABLE.keys
        unless unknown.empty?
          raise ArgumentError, "unknown server option: #{unknown.join(", ")} (known are: " \
                               "#{TABLE.keys.join(", ")})"
        end
        @given = values.keys
        @values = TABLE.to_h { |name, (default)| [name, default] }
        values.each { |name, value| @values[name] = Options.check(name, value) }
        @values[:connections] ||= Options.connections_by_fd_limit
        @values[:body_fibers] ||= [@values[:fibers] / 2, 1].max
        @values[:bodies_file_bytes] ||= [@values[:body_bytes] * 16, 2**62].min
      end

      # Applies the defaults of {RAILS}.
      #
      # @return [self]
      # @scheduling never waits
      def for_rails
        RAILS.each { |name, value| @values[name] = value unless @given.include?(name) }
        self
      end

      # @param name [Symbol] of {TABLE}
      # @return [Integer, Float, Boolean, nil]
      # @scheduling never waits
      def [](name) = @values.fetch(name)

      # @return [Hash{Symbol=>Object}]
      # @scheduling never waits
      def to_h = @values.dup

      # @return [Integer] how many connections the process may open, with some fds left for the rest
      # @scheduling never waits
      def self.connections_by_fd_limit
        [Process.getrlimit(:NOFILE).first - 64, 16].max.clamp(1, 10_000_000)
      end

      # @param name [Symbol] of {TABLE}
      # @return [Integer, Float, Boolean, nil] the value in the form that is used
      # @raise [ArgumentError] if it is out of range
      # @api private
      def self.check(name, value)
        default, allowed, = TABLE.fetch(name)
        case allowed
        when :boolean then Checks.boolean(name, value)
        when :seconds then Checks.seconds(name, value)
        else value.nil? && default.nil? ? nil : Checks.integer(name, value, allowed)
        end
      end
    end
  end
end
