# frozen_string_literal: true

require "llhttp"
require "puma"
require "puma/server"
require_relative "../../rakelib/c_tests"

# Three parsers, asked the same way: what do these bytes say as an HTTP request?
module Differential
  # verdict is :accept, :refuse, :more or (ours alone) :body, when the head is good and the body not
  # all there; reason says why it refuses. size is where the message ends, fields are [name, value]
  # pairs (Puma: an env), keep is whether another request may follow.
  Answer = Struct.new(:verdict, :reason, :method, :target, :minor, :fields, :body, :size, :keep,
    :framing, :host, keyword_init: true)

  # Ours: head.c and chunked.c in a process of their own, under ASan and UBSan.
  class Ours
    SOURCE = "test/c/http_opinion.c"

    def initialize
      Dir.chdir(File.expand_path("../..", __dir__)) do
        FileUtils.mkdir_p(CTests::HERE.folder)
        CTests.compile(SOURCE, CTests::HERE) or raise "#{SOURCE} does not compile"
        @pipe = IO.popen([File.expand_path(CTests.program(SOURCE, CTests::HERE))], "r+b")
      end
    end

    # @return [Array<Answer>] in the order of the messages
    def ask(messages)
      writer = Thread.new do
        messages.each { |bytes| @pipe.write([bytes.bytesize].pack("L"), bytes) }
        @pipe.write([0].pack("L"))
        @pipe.flush
      end
      messages.map { answer(@pipe.read(@pipe.read(4).unpack1("L"))) }
    ensure
      writer&.join
    end

    def close = @pipe.close

    private

    def answer(text)
      first, rest = text.split("\n", 2)
      verdict, *words = first.split
      return Answer.new(verdict: verdict.to_sym, reason: words.first) unless rest && rest != ""

      head = rest.byteslice(0, rest.bytesize - words[4].to_i)
      method, target, host, *fields = head.split("\n", -1)
      Answer.new(verdict: verdict.to_sym, method: method, target: target, host: host,
        fields: fields[0...-2].each_slice(2).to_a, body: rest.byteslice(head.bytesize..),
        minor: words[0].to_i, keep: words[1] == "1", framing: words[2], size: words[3].to_i)
    end
  end

  # The gem llhttp (the parser of Node.js), strict as it comes. It does not tell where a message
  # ends: it is asked whether that is where ours says.
  class Llhttp
    # Collects what the parser calls back.
    class Collector < LLHttp::Delegate
      attr_accessor :parser
      attr_reader :target, :head, :body, :facts

      def initialize
        super
        on_message_begin
      end

      def on_message_begin
        @target = +""
        @body = +""
        @fields = []
        @facts = nil
        @name = true
      end

      def on_url(bytes) = @target << bytes

      def on_header_field(bytes)
        @name ? @fields << [+"", +""] : nil
        @name = false
        @fields.last[0] << bytes
      end

      def on_header_value(bytes) = @fields.last[1] << bytes
      def on_header_value_complete = @name = true

      # What comes after this are trailers.
      def on_headers_complete
        @facts = [parser.method_name, parser.http_major, parser.http_minor]
        @head = @fields
        @fields = []
      end

      def on_body(bytes) = @body << bytes

      def on_message_complete
        @facts << parser.keep_alive?
        raise StopIteration
      end

      def done? = @facts&.size == 4
    end

    def ask(bytes, ours)
      guess = ours.size if ours.verdict == :accept
      collector = Collector.new
      collector.parser = LLHttp::Parser.new(collector, type: :request)
      size = feed(collector, bytes, guess)
      return Answer.new(verdict: :more) unless size

      method, major, minor, keep = collector.facts
      Answer.new(verdict: :accept, method: method, target: collector.target, size: size, keep: keep,
        minor: "#{major}.#{minor}", body: collector.body,
        fields: collector.head.map { |name, value| [name, value.gsub(/\A[ \t]+|[ \t]+\z/, "")] })
    rescue LLHttp::Error => error
      Answer.new(verdict: :refuse, reason: error.message.delete_prefix("Error Parsing data: "))
    end

    private

    # In three parts: all but the last byte of the guess, that byte, and the rest.
    # @return [Integer, :elsewhere, nil] where the message is over, if it is
    def feed(collector, bytes, guess)
      parts = guess ? [0...(guess - 1), (guess - 1)...guess, guess..] : [0..]
      ended = parts.index do |range|
        execute(collector, bytes.byteslice(range))
        collector.done?
      end
      ended && (ended == 1 ? guess : :elsewhere)
    end

    def execute(collector, part)
      collector.parser << part unless part.empty?
    rescue LLHttp::Error
      raise unless collector.done? # that is how the callback stops it
    end
  end

  # Puma::HttpParser and the code around it that frames the body.
  class PumaParser
    # What Puma reads from: everything is there, and then nothing more.
    class Source
      attr_reader :written

      def initialize(bytes)
        @bytes = "".b + bytes # a copy: the parser writes into what it reads
        @written = +""
      end

      def to_io = self
      def wait_readable(_timeout) = @bytes && self
      def peeraddr = ["AF_INET", 1, "127.0.0.1", "127.0.0.1"]
      def <<(bytes) = @written << bytes
      def flush = self

      def read_nonblock(size, _buffer = nil)
        raise IO::EAGAINWaitReadable unless @bytes

        part = @bytes.byteslice(0, size)
        @bytes = @bytes.bytesize > size ? @bytes.byteslice(size..) : nil
        part
      end
    end

    def ask(bytes, _ours)
      client = Puma::Client.new(Source.new(bytes), {})
      client.supported_http_methods = :any
      return Answer.new(verdict: :more) unless client.eagerly_finish

      rest = client.instance_variable_get(:@buffer)
      env = client.env
      Answer.new(verdict: :accept, method: env["REQUEST_METHOD"], target: env["REQUEST_URI"],
        minor: env["SERVER_PROTOCOL"], fields: env, body: client.body.read.to_s.b,
        size: bytes.bytesize - (rest ? rest.bytesize : 0))
    rescue StandardError => error
      Answer.new(verdict: :refuse, reason: "#{error.class}: #{error.message[0, 60]}")
    ensure
      client&.tempfile_close
    end
  end
end
