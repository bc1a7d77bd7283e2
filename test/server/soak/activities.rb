# frozen_string_literal: true

require "digest"
require_relative "connection"
require_relative "served"

module ServerSoak
  # What one client does with one connection; every answer it gets is looked at. Each returns how
  # many answers were right, and raises {Wrong} for one that is not.
  class Activities
    BYTES = SoakServed::BYTES
    # How often, of a hundred.
    WEIGHTS = {keep_alive: 22, pipeline: 16, upload: 14, expect: 6, errors: 6, half_close: 5,
               reset: 6, reset_while_reading: 5, slow_read: 3, garbage: 5, huge_head: 3,
               abandoned_upload: 4, slow_head: 2, idle: 1, unread: 2}.freeze
    LIST = WEIGHTS.flat_map { |name, weight| [name] * weight }.freeze

    def initialize(port, random)
      @port = port
      @random = random
    end

    # @return [Array(Symbol, Integer)] what was done, and how many answers were right
    def one
      name = LIST[@random.rand(LIST.size)]
      [name, Connection.open(@port) { |connection| break send(name, connection) }.to_i]
    end

    private

    def pick(*list) = list[@random.rand(list.size)]

    def check(wanted, got)
      return 1 if wanted == got

      raise Wrong, "expected #{show(wanted)}, got #{show(got)}"
    end

    def show(value)
      value = value.to_a if value.is_a?(Answer)
      value.inspect[0, 200]
    end

    def path
      size = @random.rand(pick(100, 5000, 200_000))
      pick("/array/#{size}", "/array/#{size}", "/each/#{size}", "/stream/#{size}",
        "/sleep/#{size % 20}", "/file", "/nothing")
    end

    def wanted(path)
      _, kind, size = path.split("/")
      case kind
      when "file" then [200, BYTES]
      when "sleep" then [200, size]
      when "nothing" then [404, "no such thing"]
      else [200, BYTES.byteslice(0, size.to_i)]
      end
    end

    def take(connection, path)
      answer = connection.answer
      raise Wrong, "#{path}: #{show(answer)}" if wanted(path) != [answer.status, answer.body]

      1
    rescue EOFError => error
      raise EOFError, "#{path}: #{error.message}"
    end

    def keep_alive(connection)
      (1 + @random.rand(30)).times.sum do
        connection.get(wish = path)
        take(connection, wish)
      end
    end

    def pipeline(connection)
      wishes = Array.new(2 + @random.rand(30)) { "/array/#{@random.rand(3000)}" }
      bytes = wishes.map { |wish| "GET #{wish} HTTP/1.1\r\nHost: soak\r\n\r\n" }.join
      in_pieces(connection, bytes, 1 + @random.rand(4))
      wishes.sum { |wish| take(connection, wish) }
    end

    def in_pieces(connection, bytes, pieces)
      (pieces - 1).times do
        connection.write(bytes.slice!(0, @random.rand(bytes.bytesize + 1)))
        sleep(@random.rand * 0.005)
      end
      connection.write(bytes)
    end

    def chunked(body)
      framed = +"".b
      at = 0
      while at < body.bytesize
        part = body.byteslice(at, 1 + @random.rand(50_000))
        at += part.bytesize
        framed << "#{part.bytesize.to_s(16)}\r\n" << part << "\r\n"
      end
      framed << "0\r\n\r\n"
    end

    def post(body, fields = "")
      head = "POST /echo HTTP/1.1\r\nHost: soak\r\n#{fields}"
      return "#{head}Content-Length: #{body.bytesize}\r\n\r\n".b + body if @random.rand(2).zero?

      "#{head}Transfer-Encoding: chunked\r\n\r\n".b + chunked(body)
    end

    def some_body
      BYTES.byteslice(@random.rand(1000), @random.rand(pick(100, 30_000, 300_000)))
    end

    def upload(connection)
      (1 + @random.rand(5)).times.sum do
        body = some_body
        in_pieces(connection, post(body), 1 + @random.rand(5))
        check(Digest::SHA256.hexdigest(body), connection.answer.body)
      end
    end

    def expect(connection)
      body = some_body
      connection.write("POST /echo HTTP/1.1\r\nHost: soak\r\nExpect: 100-continue\r\n" \
                       "Content-Length: #{body.bytesize}\r\n\r\n")
      unless body.empty? || @random.rand(3).zero? # sometimes it does not wait
        check("HTTP/1.1 100 Continue\r\n\r\n", connection.io.readpartial(25))
      end
      connection.write(body)
      check(Digest::SHA256.hexdigest(body), connection.answer.body)
    end

    # The application's faults: the connection lives on after a 500, and ends in a broken body.
    def errors(connection)
      connection.get("/raise")
      right = check(500, connection.answer.status)
      connection.get("/array/10")
      right += take(connection, "/array/10")
      connection.get(@random.rand(2).zero? ? "/mid" : "/short")
      begin
        raise Wrong, "a broken body was taken for whole: #{show(connection.answer)}"
      rescue EOFError
        right + 1
      end
    end

    def half_close(connection)
      wishes = Array.new(1 + @random.rand(3)) { path }
      wishes.each { |wish| connection.get(wish) }
      connection.io.close_write
      wishes.sum { |wish| take(connection, wish) } + check("", connection.rest)
    end

    def reset(connection)
      bytes = post(some_body)
      connection.write(bytes.byteslice(0, @random.rand(bytes.bytesize)))
      sleep(@random.rand * 0.01) if @random.rand(2).zero?
      connection.reset
      0
    end

    def reset_while_reading(connection)
      connection.get(@random.rand(2).zero? ? "/file" : "/stream/1000000")
      connection.io.readpartial(1 + @random.rand(50_000)) if @random.rand(3) > 0
      @random.rand(2).zero? ? connection.reset : connection.close
      0
    end

    # Sometimes until it is whole, sometimes until the server gives up.
    def slow_read(connection)
      connection.io.setsockopt(:SOCKET, :RCVBUF, 16_384)
      connection.get("/file")
      return give_up_reading(connection) if @random.rand(3).zero?

      got = +"".b
      while got.bytesize < 200_000
        got << connection.io.readpartial(60_000)
        sleep(0.01)
      end
      check(true, got.include?(BYTES.byteslice(1000, 100_000)))
    end

    def give_up_reading(connection)
      sleep(@random.rand(5).zero? ? 17 : 1)
      connection.close
      0
    end

    def garbage(connection)
      bytes = Random.new(@random.rand(1 << 30)).bytes(1 + @random.rand(300))
      bytes.setbyte(0, 0x80 | bytes.getbyte(0))
      connection.write(bytes)
      refused(connection, [400])
    end

    def huge_head(connection)
      connection.write(pick("GET /#{"a" * 20_000} HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nX: #{"a" * 40_000}\r\n", "GET / HTTP/1.1\r\n#{"X: y\r\n" * 200}\r\n"))
      refused(connection, [414, 431])
    end

    # The server says why and closes; a reset may overtake what it says.
    def refused(connection, statuses)
      answer = connection.answer
      raise Wrong, "expected a refusal, got #{show(answer)}" unless statuses.include?(answer.status)

      check("close", answer.fields["connection"]) + check("", connection.rest)
    rescue Errno::ECONNRESET, Errno::EPIPE
      0
    end

    def abandoned_upload(connection)
      connection.write("POST /echo HTTP/1.1\r\nHost: soak\r\nContent-Length: 500000\r\n\r\n",
        BYTES.byteslice(0, @random.rand(400_000)))
      return connection.close.to_i if @random.rand(4) > 0

      refused(connection, [408])
    end

    def slow_head(connection)
      connection.write("GET / HTTP/1.1\r\n")
      10.times do
        sleep(0.9)
        connection.write("X: y\r\n")
      end
      refused(connection, [408])
    rescue Errno::EPIPE, Errno::ECONNRESET
      1
    end

    def idle(connection)
      connection.get("/array/5")
      take(connection, "/array/5") + check("", connection.rest)
    end

    def unread(connection)
      connection.write("POST /unread HTTP/1.1\r\nHost: soak\r\nExpect: 100-continue\r\n" \
                       "Content-Length: 9\r\n\r\n")
      check("unread", connection.answer.body)
    end
  end
end
