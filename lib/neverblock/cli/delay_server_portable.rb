# frozen_string_literal: true

require_relative "../server"

module NB
  # Implements {DelayServer} on systems other than Linux with the server of this gem: the same
  # answers at a higher cost.
  #
  # @api private
  module DelayServerPortable
    # The allowed forms of `ms=` and `bytes=`.
    MS, BYTES = /\A\d+(\.\d+)?\z/, /\A\d+\z/
    # The answers to other forms.
    MS_TEXT = "ms= takes milliseconds from 0 to 86400000, such as 250 or 28.6\n"
    BYTES_TEXT = "bytes= takes a whole number from 0 to 1000000000000\n"
    # One part of a long body.
    PART = ("done" * 16_384).freeze
    private_constant :MS, :BYTES, :MS_TEXT, :BYTES_TEXT, :PART

    # A body of this many bytes, never in memory as a whole.
    Body = Struct.new(:bytes) do
      # @yield [String]
      # @return [void]
      def each
        (bytes / PART.bytesize).times { yield PART }
        yield PART.byteslice(0, bytes % PART.bytesize) if (bytes % PART.bytesize).positive?
      end
    end
    private_constant :Body

    # @return [Integer]
    def port = check_open

    # @return [self]
    def run
      check_open
      raise IOError, "the delay server is already running" if @running

      begin
        @running = true
        @server.run
      ensure
        @running = false
      end
      self
    end

    # @return [self]
    def stop
      @server.stop if @port
      self
    end

    # @return [nil]
    def close
      if @running
        raise IOError, "the delay server is still running: stop it and wait for #run to return"
      end

      @server.close
      @port = nil
    end

    # @return [Hash{Symbol => Integer}]
    def stats
      core = @server.stats
      { accepted: core[:accepted], open: core[:connections], answered: @answered,
        refused: @refused + core[:refused] }
    end

    private

    def listen(bind, port, delay_ns, body_bytes, close, shared) # rubocop:disable Metrics/ParameterLists
      @delay, @bytes, @close = delay_ns / 1e9, body_bytes, close
      @answered = @refused = 0
      host = bind.include?(":") ? "[#{bind}]" : bind
      @server = Server.new(method(:answer), bind: "tcp://#{host}:#{port}", drain_timeout: 0)
      @port = @server.listen(reuse_port: shared).port
    end

    def check_open = @port || raise(IOError, "the delay server is closed")

    def answer(env)
      query = env["QUERY_STRING"].split("&").to_h { |pair| pair.split("=", 2).values_at(0, 1) }
      ms, bytes = query.values_at("ms", "bytes")
      return refuse(MS_TEXT) unless ms.nil? || fits?(ms, MS, self.class::MAX_DELAY * 1000)
      return refuse(BYTES_TEXT) unless bytes.nil? || fits?(bytes, BYTES, self.class::MAX_BODY_BYTES)

      sleep ms ? ms.to_f / 1000 : @delay
      @answered += 1
      respond(bytes ? bytes.to_i : @bytes, env["REQUEST_METHOD"])
    end

    def fits?(text, form, limit) = form.match?(text) && text.to_f <= limit

    def respond(bytes, method)
      headers = { "Content-Length" => bytes.to_s }
      headers["Connection"] = "close" if @close
      [200, headers, method == "HEAD" ? [] : Body.new(bytes)]
    end

    def refuse(text)
      @refused += 1
      [400, { "Content-Length" => text.bytesize.to_s, "Connection" => "close" }, [text]]
    end
  end
end
