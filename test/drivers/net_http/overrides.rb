# frozen_string_literal: true

require "net/http"
require "neverblock"
require_relative "responses"

# Puts a method of its own in the place of each that C stands in for, one at a time, and prints
# those that a loop does not call any more.
#
#   ruby -Ilib test/drivers/net_http/overrides.rb
module Overrides
  HEAD = "HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\nbody"
  RESPONSE = Net::HTTPResponse
  # What is called for HEAD; by owner and how its method is replaced.
  METHODS = {
    RESPONSE.singleton_class => %i[read_new read_status_line each_response_header response_class
                                   read_line],
    Net::BufferedIO => %i[readline readuntil rbuf_fill rbuf_consume rbuf_flush rbuf_size],
    RESPONSE => %i[initialize initialize_http_header add_field set_field append_field_value],
    Net::HTTPOK => %i[add_field set_field],
    Net::HTTPHeader => %i[add_field set_field append_field_value each_capitalized capitalize],
    Net::HTTP::Get => %i[write_header each_capitalized capitalize],
    Net::HTTPGenericRequest => %i[write_header each_capitalized capitalize],
    Net::HTTPRequest => %i[each_capitalized],
    String => %i[capitalize]
  }.freeze

  class << self
    attr_accessor :seen

    def run
      missed = cases.reject do |name, change|
        told(name, &change) == told(name, loop: false, &change)
      end
      puts "#{cases.size} cases", missed.keys
    end

    private

    def cases
      @cases ||= METHODS.flat_map { |owner, names| names.flat_map { |name| ways(owner, name) } }
        .to_h.merge(objects)
    end

    def ways(owner, name)
      return [] unless owner.method_defined?(name) || owner.private_method_defined?(name)

      [["#{owner}##{name} prepended", proc { owner.prepend(spy(owner, name)) }],
       ["#{owner}##{name} redefined", proc { redefine(owner, name) }]]
    end

    def spy(owner, name)
      Module.new do
        define_method(name) do |*arguments, **options, &block|
          Overrides.seen += 1
          super(*arguments, **options, &block)
        end
        private(name) if owner.private_method_defined?(name)
      end
    end

    def redefine(owner, name)
      original = owner.instance_method(name)
      owner.define_method(name) do |*arguments, **options, &block|
        Overrides.seen += 1
        original.bind_call(self, *arguments, **options, &block)
      end
      owner.send(:private, name) if original.owner.private_method_defined?(name)
    end

    def objects
      {
        "a socket's own method" => proc { |socket| socket.extend(spy(socket.class, :readuntil)) },
        "a request's own method" => proc do |_, request|
          request.extend(spy(request.class, :capitalize))
        end,
        "debug output" => proc { |socket| socket.debug_output = Told.new }
      }
    end

    # What set_debug_output is given.
    class Told
      def <<(_text) = Overrides.seen += 1
    end

    # How often, in a process of its own.
    def told(name, loop: true, &change)
      reader, writer = IO.pipe
      pid = fork { writer.puts(count(loop, &change).inspect) }
      writer.close
      Process.wait(pid)
      reader.read.tap { |line| raise "#{name}: #{line.inspect}" unless line.match?(/\A\[\d/) }
    end

    def count(loop)
      socket = Net::BufferedIO.new(Responses::Pieces.new([HEAD.b]))
      request = Net::HTTP::Get.new("/", "x-y" => "z")
      yield socket, request
      @seen = 0
      facts = loop ? NB.run { exchange(socket, request) } : exchange(socket, request)
      [@seen, *facts]
    end

    def exchange(socket, request)
      sent = +""
      request.exec(Struct.new(:text) { def write(text) = self.text << text }.new(sent), "1.1", "/")
      response = RESPONSE.read_new(socket)
      [sent, response.class.name, response.to_hash, socket.read(4)]
    end
  end
end

Overrides.run
