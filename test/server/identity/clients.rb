# frozen_string_literal: true

require "neverblock"
require "openssl"
require "socket"
require_relative "../../support/clock"
require_relative "../../support/reset"

module ServerIdentity
  # A byte that is not its own client's, or an answer that is not there.
  class Strange < StandardError; end
  class Lost < StandardError; end

  # One client: every request has a token of its own, in path, query, fields and body, and every
  # byte of the answer is compared.
  class Client
    include Clock

    KINDS = {
      "array" => 40, "echo" => 14, "sleep" => 6, "upstream" => 6, "each" => 10, "kept" => 8,
      "stream" => 5, "thread" => 3, "late" => 6, "raise" => 2, "fork" => 1
    }.flat_map { |kind, count| [kind] * count }.freeze
    WAYS = {batch: 60, mixed: 22, expect: 5, half_close: 4, hang_up: 3, reset: 2, hijack: 2,
            timeout: 1, slow_read: 1}.flat_map { |way, count| [way] * count }.freeze
    DATE = "date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
    TIMEOUT = [503, "The request took longer than request_timeout allows.\n"].freeze
    PATIENCE = 120
    EXPECT = 1_000_000 # this "size" of an echo asks for 100 Continue
    # While it drains, a server closes a connection on which it has heard nothing for a second, and
    # one that has not asked anything yet after two.
    IDLE = 0.9
    FIRST = 1.8

    # @return [Hash{Symbol=>Integer}] requests that got no answer, as documented, by the reason
    attr_reader :excuses
    attr_reader :asked, :answered, :failures

    def initialize(number, ports, random)
      @number = number
      @ports = ports
      @random = random
      @sequence = 0
      @asked = @answered = 0
      @excuses = Hash.new(0)
      @failures = []
    end

    def excused = @excuses.sum { |_, count| count }

    # Once: one connection and what is done with it.
    def one
      way = self.way
      @written = @idle = nil
      @began = clock
      NB.timeout(PATIENCE) { connect { |io| send(way, io) } }
    rescue Lost, Errno::EPIPE, Errno::ECONNRESET => error
      return @excuses[:silent] += @asked - @answered - excused if @idle

      @failures << "#{way}: #{error.class}: #{error.message[0, 500]}"
    rescue StandardError => error
      @failures << "#{way}: #{error.class}: #{error.message[0, 500]}"
    end

    private

    def way = WAYS[@random.rand(WAYS.size)]

    # A tenth by TLS.
    def connect
      return TCPSocket.open("127.0.0.1", @ports[:plain]) { |io| yield io } if @random.rand(10) > 0

      TCPSocket.open("127.0.0.1", @ports[:tls]) do |io|
        secure = OpenSSL::SSL::SSLSocket.new(io)
        secure.sync_close = true
        yield secure.connect
      ensure
        secure&.close
      end
    end

    def token = format("z%04x%010xz", @number, @sequence += 1)

    def request(kind, token, size, body = nil) # rubocop:disable Metrics/ParameterLists
      fields = "Content-Length: #{body.bytesize}\r\n" if body
      fields += "Expect: 100-continue\r\n" if kind == "echo" && size == EXPECT
      "#{body ? "POST" : "GET"} /#{kind}/#{token}/#{size}?#{token} HTTP/1.1\r\nHost: soak\r\n" \
        "X-Token: #{token}\r\nCookie: #{token}\r\nX-Request-Id: #{token}\r\n" \
        "#{fields}\r\n#{body}"
    end

    def ask(io, bytes, count = 1)
      @asked += count
      io.write(bytes) # may let the others go first, all of them
    ensure
      last, @written = @written, clock
      @idle = last ? @written - last > IDLE : @written - @began > FIRST
    end

    # Pipelined, and compared byte by byte, heads and all.
    def batch(io)
      (1 + @random.rand(3)).times do
        tokens = Array.new(32) { token }
        sizes = tokens.map { 1 + @random.rand(60) }
        wanted = tokens.zip(sizes).map { |one, size| plain(one, size) }
        bytes = tokens.zip(sizes).map { |one, size| request("array", one, size) }.join
        ask(io, bytes, tokens.size)
        return rest(io, wanted) unless take_all(io, wanted)
      end
    end

    def plain(token, size)
      "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n#{DATE}x-token: #{token}\r\n" \
        "content-length: #{16 * size}\r\n\r\n#{token * size}"
    end

    def take_all(io, wanted)
      all = wanted.join
      @got = io.read(all.bytesize) || +""
      return false unless @got == all

      @answered += wanted.size
    end

    # Not what was wanted: a server that ends says so in its last answer, and gives no more.
    def rest(io, wanted)
      @got << io.read.to_s if @got.include?("connection: close")
      wanted.each_with_index do |answer, index|
        last = answer.sub("\r\n\r\n", "\r\nconnection: close\r\n\r\n")
        if @got.delete_prefix!(answer)
          @answered += 1
        elsif @got.delete_prefix!(last)
          raise Strange, "after the last answer: #{@got}" unless @got.empty?

          @answered += 1
          return @excuses[:pipelined] += wanted.size - index - 1
        else
          raise @got.empty? ? Lost : Strange, "for #{answer[/z\h+z/]}: #{@got[0, 300].inspect}"
        end
      end
    end

    # One after the other, or pipelined: every kind of body.
    def mixed(io)
      (1 + @random.rand(12)).times do
        wishes = Array.new(1 + @random.rand(4)) { wish }
        ask(io, wishes.map(&:first).join, wishes.size)
        wishes.each_with_index do |(_, *wanted), index|
          return @excuses[:pipelined] += wishes.size - index - 1 if check(io, *wanted) == :last
        end
      end
    end

    # @return [Array(String, String, Integer, String)] the request, its token, what it must get
    def wish
      kind = KINDS[@random.rand(KINDS.size)]
      one = token
      size = @random.rand(kind == "each" ? 3000 : 200)
      body = one * size if kind == "echo"
      answer = kind == "raise" ? "Internal server error.\n" : one * size
      [request(kind, one, size, body), one, kind == "raise" ? 500 : 200, answer]
    end

    # @return [Symbol] :last when the server says that it ends here
    def check(io, token, *wanted)
      status, fields = head(io)
      got = [status, content(io, fields)]
      late = got == TIMEOUT && wanted != TIMEOUT # a request of a full machine
      strange = got != wanted && !late
      strange ||= status == 200 && fields["x-token"] && fields["x-token"] != token
      raise Strange, "for #{token} (#{wanted[0]}): #{got.inspect[0, 300]} #{fields}" if strange

      late ? @excuses[:timeout] += 1 : @answered += 1
      fields["connection"] == "close" ? :last : :kept
    end

    def head(io)
      line = io.gets("\r\n")
      raise Lost, "no answer" unless line

      status = line[/\AHTTP\/1\.1 (\d{3}) /, 1] or raise Strange, line.inspect
      fields = {}
      until (field = io.gets("\r\n").to_s.chomp("\r\n")).empty?
        name, value = field.split(": ", 2)
        fields[name.downcase] = value
      end
      status == "100" ? head(io) : [status.to_i, fields]
    end

    def content(io, fields)
      length = fields["content-length"]
      return length == "0" ? "" : io.read(Integer(length)).to_s if length

      body = +""
      while (size = Integer(io.gets("\r\n").to_s.chomp("\r\n"), 16)).positive?
        body << io.read(size).to_s
        raise Strange, "a chunk does not end" unless io.gets("\r\n") == "\r\n"
      end
      io.gets("\r\n")
      body
    end

    def expect(io)
      3.times do
        one = token
        body = one * (1 + @random.rand(3000))
        bytes = request("echo", one, EXPECT, body)
        ask(io, bytes.byteslice(0, bytes.bytesize - body.bytesize))
        sleep(0.002) if @random.rand(2).zero?
        io.write(body)
        return if check(io, one, 200, body) == :last
      end
    end

    def half_close(io)
      return mixed(io) unless io.is_a?(TCPSocket)

      one = token
      ask(io, request("array", one, 20))
      io.close_write
      check(io, one, 200, one * 20)
    end

    # What it asked for is nobody's: no answer is waited for.
    def hang_up(io)
      kind = %w[sleep slow each stream kept echo][@random.rand(6)]
      io.write(request(kind, one = token, 500, one * 9))
      sleep(0.001 * @random.rand(20))
    end

    def reset(io)
      hang_up(io)
      Reset.on_close(io.to_io)
    end

    def hijack(io)
      one = token
      ask(io, request("hijack", one, 100))
      check(io, one, 200, one * 100)
    end

    # Another request comes after it in the same fiber.
    def timeout(io)
      ask(io, request("slow", one = token, 1))
      return if check(io, one, *TIMEOUT) == :last

      ask(io, request("sleep", one = token, 9))
      check(io, one, 200, one * 9)
    end

    def slow_read(io)
      ask(io, request("each", one = token, 20_000))
      sleep(0.3)
      check(io, one, 200, one * 20_000)
    end
  end
end
