# frozen_string_literal: true

require "net/http"
require "timeout"
require_relative "rubyhttp_splice"

module NB
  module CLI
    # The ways of filling Net::HTTP's buffer that the study of 2008 tried, and some more, as
    # subclasses of Net::BufferedIO. Ruby's own classes stay unchanged.
    module RubyhttpWays
      # How each way replaces `rbuf_fill`: how many bytes it asks for, and how it waits.
      ALL = {
        "stock" => nil,
        "custom-1kbuffer-timeout" => [1_024, :timeout],
        "custom-16kbuffer" => [16_384, :timeout],
        "custom-16kbuffer-notimeout" => [16_384, :none],
        "custom-16kbuffer-select" => [16_384, :select],
        "custom-16kbuffer-selectwithsysread" => [16_384, :select_sysread],
        "custom-16kbuffer-reuse" => [16_384, :reuse],
        "custom-64kbuffer-notimeout" => [65_536, :none],
        "custom-64kbuffer-select" => [65_536, :select],
        "custom-64kbuffer-direct" => [65_536, :reuse, :direct],
        "custom-256kbuffer-notimeout" => [262_144, :none],
        "custom-1mbuffer-notimeout" => [1_048_576, :none],
        "custom-copystream" => [16_384, :none, :copy_stream],
        "custom-splice" => [16_384, :none, :splice]
      }.freeze
      # A body that this way reads is not seen by Ruby.
      SPLICE = "custom-splice"

      # Passes IO.copy_stream's bytes to the reader of a body.
      Sink = Struct.new(:reader) do
        # @param bytes [String]
        # @return [Integer] their number
        # @scheduling never waits
        def write(bytes)
          reader << bytes
          bytes.bytesize
        end
      end

      # Net::HTTP's buffer, filled in one of these ways.
      class Buffer < Net::BufferedIO
        # @param way [Array(Integer, Symbol, Symbol)] bytes asked for at once; :timeout, :none,
        #   :select, :select_sysread or :reuse; and how a body is read if not through the buffer:
        #   :direct, :copy_stream or :splice, which drops it
        # @param io [IO]
        # @param options [Hash] of Net::BufferedIO
        def initialize(way, io, **options)
          super(io, **options)
          @size, @fill, @body = way
          @spare = String.new
        end

        # Reads a body of known length, bypassing the buffer if the way says so.
        def read(length, reader = +"", ignore_eof = false)
          return super unless @body

          rest = [buffered, length].min
          head = rest.positive? ? rbuf_consume(rest) : ""
          return drop(length, rest) if @body == :splice

          reader << head unless head.empty?
          send(@body, length - rest, reader)
          reader
        end

        # @return [Integer, nil] bytes of the body that were dropped
        attr_reader :dropped

        private

        def drop(length, rest)
          File.open(File::NULL, "w") do |sink|
            RubyhttpSplice.new(@io, sink, timeout: read_timeout).move(length - rest)
          end
          @dropped = length
          +""
        end

        # Newer versions keep consumed bytes in the buffer.
        def buffered = respond_to?(:rbuf_size, true) ? rbuf_size : @rbuf.bytesize

        def rbuf_fill
          @rbuf << send(@fill)
          @rbuf_empty = false # in newer versions
        end

        def none = @io.readpartial(@size)
        def reuse = @io.readpartial(@size, @spare)
        def timeout = Timeout.timeout(read_timeout) { sysread }

        # Async does not wait here, but hands on what the kernel says.
        def sysread
          @io.sysread(@size)
        rescue Errno::EAGAIN
          @io.wait_readable
          retry
        end

        def select
          @io.read_nonblock(@size)
        rescue IO::WaitReadable
          IO.select([@io], nil, nil, read_timeout) or raise Net::ReadTimeout, @io
          retry
        end

        def select_sysread
          IO.select([@io], nil, nil, read_timeout) or raise Net::ReadTimeout, @io
          @io.sysread(@size)
        end

        def direct(length, reader)
          while length.positive?
            reader << @io.readpartial([@size, length].min, @spare)
            length -= @spare.bytesize
          end
        end

        def copy_stream(length, reader)
          copied = IO.copy_stream(@io, Sink.new(reader), length)
          raise EOFError, "end of file reached" if copied < length
        end
      end

      class << self
        # @param name [String] of {ALL}
        # @param port [Integer] on this machine
        # @yieldparam chunk [String] a part of the body; {SPLICE} yields none
        # @return [Integer, nil] the number of bytes, if they were not yielded
        # @raise [KeyError] for a name that is none
        # @scheduling may wait
        def get(name, port, &chunk)
          way = ALL.fetch(name)
          Net::HTTP.start("127.0.0.1", port) do |http|
            buffer = refit(http, way) if way
            http.request_get("/", "Accept-Encoding" => "identity") do |response|
              response.read_body(&chunk)
            end
            buffer&.dropped
          end
        end

        private

        # Nothing has been read yet, so the old buffer is empty.
        def refit(http, way)
          old = http.instance_variable_get(:@socket)
          buffer = Buffer.new(way, old.io, read_timeout: old.read_timeout,
                                           write_timeout: old.write_timeout)
          http.instance_variable_set(:@socket, buffer)
        end
      end
    end
  end
end
