# frozen_string_literal: true

require_relative "bundled"
require "neverblock"

# Writes many heads of requests by Net::HTTP's own code and in a loop, and prints where the bytes,
# their encoding, what came back or an exception differ.
#
#   ruby -Ilib test/drivers/net_http/requests.rb [seed] [bundled]
module Requests
  NAMES = ["accept", "Content-Type", "x", "X-", "-x", "a--b", "--", "x_1!#$%&'*+-.^`|~z", "x y",
           "WWW-Authenticate", "ETAG", "x-9a-Z", "\u{fc}-x", "x\xFF", :symbol, "a@[`{b", "x:y",
           "host"].freeze
  VALUES = ["v", "", "a, b", "\u{fc}", "\xFF", "x".encode("UTF-16LE"), "y".encode("US-ASCII"),
            "z".b, :symbol, 7, nil, %w[a b], [], ["a", nil], [["b"]], Class.new(String).new("s"),
            " padded ", "a\u0000b"].freeze
  PATHS = ["/", "/a b", "/\u{fc}", "/\xFF", "/a\r\nb", "/\n", "", "*", "/b".b, :path,
           "/#{"p" * 5000}"].freeze
  VERSIONS = ["1.1", "1.0", 1.1, "1.1\n"].freeze
  METHODS = [Net::HTTP::Get, Net::HTTP::Post, Net::HTTP::Head, Net::HTTP::Mkcol].freeze

  # Keeps what it is given.
  class Sink
    attr_reader :written

    def write(*strings)
      @written = [*@written, *strings.map { |one| [one.dup, one.encoding, one.frozen?] }]
      nil # as odd as may be
    end
  end

  # As programs do that want lower case on the wire.
  class Kept < String
    def capitalize = self
    def split(*) = [self]
    def to_s = self
    def downcase = self
  end

  class << self
    def compare(seed)
      cases = made(seed) + direct
      cases.each do |one|
        stock, ours = written(*one), NB.run { written(*one) }
        puts "#{one.inspect[0, 300]}\n  #{stock.inspect[0, 500]}\n  #{ours.inspect[0, 500]}" if
          stock != ours
      end
      puts "net-http #{Net::HTTP::VERSION}, net-protocol #{Net::Protocol::VERSION}: " \
           "#{cases.size} cases, #{cases.count { |one| fast?(*one) }} fast"
    end

    private

    # By the library's setters, as far as they take it.
    def made(seed)
      random = Random.new(seed)
      pick = ->(list) { random.rand < 0.5 ? list[0] : list.sample(random: random) }
      Array.new(4000) do
        request = METHODS.sample(random: random).new("/")
        random.rand(6).times do
          set(request, { NAMES.sample(random: random) => pick[VALUES] }, random.rand(3))
        end
        [request, pick[VERSIONS], pick[PATHS]]
      end
    end

    def set(request, field, way)
      case way
      when 0 then request[field.keys[0]] = field.values[0]
      when 1 then request.add_field(*field.first)
      else request.initialize_http_header(field)
      end
    rescue StandardError
      nil # not taken
    end

    # Past the setters.
    def direct
      NAMES.product(VALUES).map { |name, value| [with({ name => value }), "1.1", "/"] } +
        [nil, [], { "x" => ["\r\n"] }, { Kept.new("x-y") => ["z"] }, { "" => ["z"] },
         { "a-" => ["z"] }, Hash.new("default"), { nil => ["z"] }, { "x" => nil }]
          .map { |header| [with(header), "1.1", "/"] } + verbs
    end

    def with(header)
      Net::HTTP::Get.new("/").tap { |request| request.instance_variable_set(:@header, header) }
    end

    def verbs
      ["get", "G\nT", "\u{fc}", :GET, nil, Kept.new("GET")].map do |verb|
        request = Net::HTTP::Get.new("/")
        request.instance_variable_set(:@method, verb)
        [request, "1.1", "/"]
      end
    end

    def written(request, version, path)
      sink = Sink.new
      result = request.send(:write_header, sink, version, path)
      [result, sink.written]
    rescue StandardError => error
      [error.class, error.message, sink.written]
    end

    def fast?(*one) = NB.run { !NB::Drivers::NetHTTPCalls.request_head(*one).nil? }
  end
end

Requests.compare(ARGV.fetch(0, 2008).to_i)
