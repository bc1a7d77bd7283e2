# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- lists of bytes are better read in long lines

module Differential
  # Requests that are hard to read, made from a seed: message n of a seed is always the same bytes.
  class Requests
    METHODS = %w[GET GET GET POST POST HEAD PUT DELETE OPTIONS CONNECT TRACE PATCH PRI get M-SEARCH X!#$%
                 BREW GETX G] + ["", "GET\t", "G T", "\u00e9"]
    TARGETS = ["/", "/", "/a/b?c=d&e", "*", "http://h/p?q", "https://h:8443/", "http://h?q", "h:443", "[::1]:80",
               "/a#b", "/%zz", "/a b", "/\u00e9", "//h/p", "http://u@h/", "http:///", "x", "", "/\x7f", "/a\"<>",
               "/[]{}|\\^`", "?q", "http://h:99999999/", "HTTP://H/", "ftp://h/", "http://[::g]/", "http://%/", "http://h:/", "/?a?b#c", "http://[::1]/x"].freeze
    VERSIONS = %w[HTTP/1.1 HTTP/1.1 HTTP/1.1 HTTP/1.1 HTTP/1.0 HTTP/1.0 HTTP/1.2 HTTP/2.0 HTTP/0.9 http/1.1 HTTP/1
                  HTTP/11 HTTP/1.1x HTTP/01.1 HTTP/1.10 HTTP/+1.1 XTTP/1.1] + ["", "HTTP/1.1 ", "HTTP/ 1.1"]
    NAMES = %w[Host Content-Length Transfer-Encoding Connection Expect Upgrade X-A Cookie Content-Type Content_Length
               Transfer_Encoding Trailer TE Proxy X_A HTTP_HOST X!#$%&'*+-.^_`|~] +
      ["Content-Length ", " Content-Length", "X A", "X\t", "", "X\u00e9", "X(", "Host\0", "Content-Length\v"]
    VALUES = ["a", "a:80", "", " ", "0", "5", "05", "+5", "-5", "5 5", "5,5", "5, 6", "0x5", "5e0", "\u0665",
              "18446744073709551616", "9223372036854775807", "chunked", "Chunked", " chunked ", "chunked,", ",chunked",
              "gzip, chunked", "chunked, gzip", "chunked, chunked", "identity", "xchunked", "\vchunked", "chunked\v",
              "chunked;q=1", "chunked\t", "\tchunked", "chunked, ", "chunked ,", "5\t", "\t5", "0\t", "\"chunked\"", "close", "keep-alive", "close, keep-alive", "upgrade", "Upgrade, close",
              "websocket", "100-continue", "200-ok", "a\tb", "a\0b", "a\rb", "a\nb", "a\x01b", "a\x7fb", "\u00e9",
              "a\r\n b", "a\r\n\tb", "x" * 300, "trailers"].freeze
    CHUNKS = ["3\r\nabc\r\n", "03\r\nabc\r\n", "A\r\n0123456789\r\n", "a;x=y\r\n0123456789\r\n", "3;x\r\nabc\r\n",
              "3;x=\"a;b\"\r\nabc\r\n", "3 ;x\r\nabc\r\n", "3 \r\nabc\r\n", " 3\r\nabc\r\n", "0x3\r\nabc\r\n", "+3\r\nabc\r\n",
              "3\nabc\n", "3\r\nabcd\r\n", "3\r\nabc", "3\r\nab\r\n", "g\r\n", "\r\n", "-1\r\n", "3;\r\nabc\r\n", "3;=\r\nabc\r\n",
              "ffffffffffffffff\r\n", "10000000000000003\r\nabc\r\n", "3;\n\r\nabc\r\n", "3\r\r\nabc\r\n", "3;x=\"\n\"\r\nabc\r\n",
              "00000000000000000003\r\nabc\r\n", "3\t\r\nabc\r\n", "3;x\0\r\nabc\r\n"].freeze
    ENDS = ["0\r\n\r\n", "0\r\n\r\n", "0\r\n\r\n", "0\r\nT: u\r\n\r\n", "00\r\n\r\n", "0;x\r\n\r\n", "0\n\n", "0\r\n\n", "0\r\nT u\r\n\r\n",
            "0\r\nContent-Length: 5\r\n\r\n", "0\r\n T: u\r\n\r\n", "0\r\nT: u\r\n v\r\n\r\n", "0\r\n", "", "0\r\nT: a\0\r\n\r\n",
            "0\r\nT: u\n\r\n", "0\r\r\n\r\n"].freeze
    BYTES = ["\r", "\n", "\0", "\t", " ", ":", ",", ";", "=", "+", "-", "_", "/", "?", "#", "%", "\"", "\v", "\f", "\x1f",
             "\x7f", "\x80", "\xff", "0", "9", "a", "\r\n", "\r\n\r\n", "\n\n", " \r\n", "\r\n "].map(&:b).freeze

    # @param seed [Integer]
    # @param corpus [Array<String>] requests to begin with, beside those made here
    def initialize(seed, corpus: self.class.corpus)
      @seed = seed
      @corpus = corpus
    end

    # What libFuzzer has kept: its first byte says where to cut, the rest is the message.
    def self.corpus(folder = File.expand_path("../c/corpus/http", __dir__))
      Dir["#{folder}/*"].sort.map { |file| File.binread(file).byteslice(1..).to_s }.reject(&:empty?)
    end

    # @return [String] binary
    def message(number)
      random = Random.new((@seed << 32) + number)
      bytes = random.rand(6).zero? ? pick(@corpus, random).dup : build(random)
      [0, 0, 1, 1, 2, 3][random.rand(6)].times { mutate(bytes, random) }
      bytes << build(random) if random.rand(8).zero? # pipelined
      bytes.empty? ? "\r\n".b : bytes
    end

    private

    def pick(list, random) = list[random.rand(list.size)]

    # Mostly right in most parts, so that one wrong part is seen.
    def some(list, usual, random) = random.rand(10).zero? ? pick(list, random) : usual

    def build(random)
      chunked = random.rand(3).zero?
      head = +"#{some(METHODS, chunked ? "POST" : "GET", random)} #{some(TARGETS, "/", random)} " \
              "#{some(VERSIONS, "HTTP/1.1", random)}\r\n"
      head << "Host: a\r\n" unless random.rand(10).zero?
      head << "Transfer-Encoding: chunked\r\n" if chunked
      head << field(random) while random.rand(3).zero?
      head << "\r\n" << (chunked ? chunks(random) : body(random))
      head.b
    end

    def field(random)
      "#{some(NAMES, pick(NAMES.first(9).last(8), random), random)}:#{" " unless random.rand(8).zero?}" \
        "#{pick(VALUES, random)}#{" " if random.rand(12).zero?}#{random.rand(24).zero? ? "\n" : "\r\n"}"
    end

    def body(random) = random.rand(3).zero? ? "hello world"[0, random.rand(12)] : ""

    def chunks(random)
      "#{Array.new(random.rand(3)) { some(CHUNKS, CHUNKS.first, random) }.join}#{some(ENDS, ENDS.first, random)}"
    end

    def mutate(bytes, random)
      return bytes << pick(BYTES, random) if bytes.empty?

      at = random.rand(bytes.bytesize)
      case random.rand(8)
      when 0, 1 then bytes.insert(at, pick(BYTES, random))
      when 2, 3 then bytes[at, 1] = pick(BYTES, random)
      when 4 then bytes.setbyte(at, bytes.getbyte(at) ^ (1 << random.rand(8)))
      when 5 then bytes[at, random.rand(1..8)] = ""
      when 6 then bytes.insert(at, bytes[random.rand(bytes.bytesize), random.rand(1..40)])
      when 7 then swap_lines(bytes, random)
      end
    end

    def swap_lines(bytes, random)
      lines = bytes.lines
      one, other = Array.new(2) { random.rand(lines.size) }
      random.rand(2).zero? ? lines[other] = lines[one] : (lines[one], lines[other] = lines.values_at(other, one))
      bytes.replace(lines.join)
    end
  end
end
# rubocop:enable Layout/LineLength
