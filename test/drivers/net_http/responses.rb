# frozen_string_literal: true

require_relative "bundled"
require "neverblock"

# Reads many heads of responses, cut at every byte, by Net::HTTP's own code and in a loop, and
# prints where anything differs: values, encodings, exceptions, what is left in the buffer.
#
#   ruby -Ilib test/drivers/net_http/responses.rb [seed] [bundled]
module Responses
  STATUS = [
    "HTTP/1.1 200 OK", "HTTP/1.1 200 ", "HTTP/1.1 200", "HTTP/1.0 404 Not  Found ",
    "HTTP/1.1  200 OK", "HTTP/1.1 200  two", "HTTP/1.1\t200 OK", "http/1.1 200 OK",
    "HTTP/1.1 2000 OK", "HTTP/1.1 20 OK", "HTTP 200 OK", "HTTP/11.22 599 \xC3\xBC\xFF",
    "HTTP/1.1 100 Continue", "HTTP/1.1 204 No Content", "HTTP/1.1 200 a\rb", "HTTP/1.1 200 a\x00b",
    "HTTP/1.1 200 \tx", "HTTP/.1 200 OK", "HTTP/1. 200 OK", "HTTP/1 200 OK", " HTTP/1.1 200 OK",
    "", "garbage", "HTTP/1.1 200OK", "HTTP/1.1 999 \x7F", "HTTP/1.1 301 Moved\x0B",
    "HTTP/1.1 000 x", "HTTP/1.1 200 OK\r", "HTTP/1.1 200\r"
  ].freeze
  FIELDS = [
    "Content-Length: 4", "content-length:4", "CONTENT-TYPE: text/html; charset=utf-8", "X: ", "X:",
    "X", ":x", "X : y", "X:\t a\tb \t", "X: a:b: c", "X: \xC3\xBC", "X\xC3: y", "Set-Cookie: a=1",
    "set-cookie: b=2", "Set-Cookie: c", " folded", "\tfolded", "  ", "X: a\rb", "X: a\x00",
    "X: a\x00b", "X: \x0Ba\x0C", "X: y\x7F", "X_1!#$%&'*+-.^`|~z: q", "Connection: close",
    "X y: z", "\x00X: y", "X: , ,", "Transfer-Encoding: chunked", "X@: y", "X:y  ",
    "A: \xA0 b \x85", "X: y\r", "\r", ":", "X:: y", "-: y", "X: \u{2028}"
  ].freeze
  ENDS = ["\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", "\r\r\n"].freeze
  LONG = ["X: #{"y" * 20_000}", "#{"X" * 1024}: y", "#{"X" * 1025}: y", "X: #{"y" * 65_537}",
          *Array.new(70) { |number| "F#{number}: y" }].freeze

  # Gives what it has piece by piece, then the end.
  class Pieces
    def initialize(pieces) = @pieces = pieces.reject(&:empty?)
    def to_io = self
    def closed? = false
    def wait_readable(_) = self

    def read_nonblock(_, buffer = nil, exception: true) # rubocop:disable Lint/UnusedMethodArgument
      piece = @pieces.shift or return
      buffer ? buffer.replace(piece) : piece.dup
    end
  end

  class << self
    attr_reader :fast

    def random(seed)
      random = Random.new(seed)
      Array.new(150) do
        lines = [random.rand < 0.6 ? STATUS[0] : STATUS.sample(random: random),
                 *Array.new(random.rand(5)) { FIELDS.sample(random: random) }, ""]
        odd = random.rand < 0.3
        lines.map { |line| line + (odd ? ENDS.sample(random: random) : "\r\n") }.join.b
      end
    end

    # Each line by itself, so that no luck leaves one out.
    def single
      STATUS.map { |line| "#{line}\r\nA: b\r\n\r\n".b } +
        FIELDS.map { |line| "HTTP/1.1 200 OK\r\nA: b\r\n#{line}\r\n\r\n".b } +
        FIELDS.map { |line| "HTTP/1.1 200 OK\r\n#{line}\n\n".b }
    end

    def long
      LONG.each_slice(1).to_a.first(4).push(LONG.last(70), LONG.last(64), LONG.last(65))
        .map { |lines| "HTTP/1.1 200 OK\r\n#{lines.join("\r\n")}\r\n\r\n".b }
    end

    def compare(seed)
      cases = (single + random(seed)).flat_map { |head| cuts(head) } +
              long.flat_map do |head|
                [[head], [head, "tail"], [head[0..-2]], [head[0, 9000], head[9000..].to_s]]
              end
      cases.each do |pieces|
        stock, ours = read(pieces), NB.run { read(pieces) }
        puts "#{pieces.inspect[0, 300]}\n  #{stock.inspect[0, 500]}\n  #{ours.inspect[0, 500]}" if
          stock != ours
      end
      puts "net-http #{Net::HTTP::VERSION}, net-protocol #{Net::Protocol::VERSION}: " \
           "#{cases.size} cases, #{cases.count { |pieces| fast?(pieces) }} fast"
    end

    private

    # In two pieces, ended there, and followed by a body, at once or not.
    def cuts(head)
      [[head], [head, "body"], ["#{head}body".b], ["#{head}HTTP/1.1 500 X\r\n\r\n".b],
       *(1...head.size).flat_map { |at| [[head[0, at]], [head[0, at], "#{head[at..]}body".b]] }]
    end

    def socket_of(pieces) = Net::BufferedIO.new(Pieces.new(pieces.map(&:b)))

    def fast?(pieces)
      NB.run { !NB::Drivers::NetHTTPCalls.read(Net::HTTPResponse, socket_of(pieces)).nil? }
    rescue EOFError
      false
    end

    # Twice, as a 1xx response is followed by another, then the rest.
    def read(pieces)
      socket = socket_of(pieces)
      [result { facts(Net::HTTPResponse.read_new(socket)) }, state(socket),
       result { facts(Net::HTTPResponse.read_new(socket)) }, state(socket),
       result { socket.read(2).then { |text| [text, text.encoding] } }, result { socket.read_all }]
    end

    def result
      yield
    rescue StandardError => error
      [error.class, error.message]
    end

    def facts(response)
      [response.class, *response.instance_variables.map do |name|
        [name, deep(response.instance_variable_get(name))]
      end]
    end

    def deep(object)
      case object
      when Hash then [object.default, object.frozen?, deep(object.to_a)]
      when Array then [object.frozen?, object.map { |one| deep(one) }]
      when String then [object.dup, object.encoding, object.frozen?]
      else object
      end
    end

    def state(socket)
      socket.instance_variables.grep(/rbuf/).map { |name| deep(socket.instance_variable_get(name)) }
    end
  end
end

Responses.compare(ARGV.fetch(0, 2008).to_i) if $PROGRAM_NAME == __FILE__
