# frozen_string_literal: true

require_relative "clients"

module ServerIdentity
  # A client that makes a TLS connection for a request or two: of both versions, new or resumed, and
  # ended in every way.
  class Handshaker < Client
    CONTEXTS = [OpenSSL::SSL::TLS1_2_VERSION, OpenSSL::SSL::TLS1_3_VERSION].map do |version|
      OpenSSL::SSL::SSLContext.new.tap do |context|
        context.min_version = context.max_version = version
        context.session_cache_mode = OpenSSL::SSL::SSLContext::SESSION_CACHE_CLIENT
      end
    end
    HELLO = "\x16\x03\x01\x02\x00\x01".b # how a handshake begins

    # @return [Hash{Symbol=>Integer}] handshakes, by kind
    attr_reader :handshakes

    def initialize(...)
      super
      @handshakes = Hash.new(0)
      @sessions = {}
    end

    private

    def way = :brief

    def connect
      TCPSocket.open("127.0.0.1", @ports[:tls]) do |io|
        next break_off(io) if @random.rand(50).zero?

        secure = handshake(io)
        yield secure
        leave(io, secure)
      end
    end

    def break_off(io)
      io.write(HELLO[0, 1 + @random.rand(6)])
      @handshakes[:broken_off] += 1
    end

    def handshake(io)
      version = @random.rand(2)
      secure = OpenSSL::SSL::SSLSocket.new(io, CONTEXTS[version])
      secure.session = @sessions[version] if @sessions[version] && @random.rand(3).zero?
      secure.connect
      @handshakes[secure.session_reused? ? :resumed : :full] += 1
      @session_of = version
      secure
    end

    def leave(io, secure)
      @sessions[@session_of] = secure.session
      case @random.rand(10)
      when 0 then io.setsockopt(Socket::Option.linger(true, 0))
      when 1 then nil # no notice of the end
      else secure.close
      end
    end

    def brief(io)
      (1 + @random.rand(2)).times do
        bytes, *wanted = wish
        ask(io, bytes)
        return if check(io, *wanted) == :last
      end
    end
  end
end
