# frozen_string_literal: true

require "securerandom"
require "socket"
require_relative "iotest_zero_copy"

module NB
  module CLI
    # Moves bytes for `nb iotest` and counts them. One fiber reads ahead of another that writes, by
    # as many chunks as -o says.
    #
    # @example Eight megabytes of random bytes into nothing
    #   options = NB::CLI::IotestOptions.parse(%w[-c localhost -n -l 8M])
    #   NB.run { NB::CLI::IotestTransfer.new(options).send_to(File.open(File::NULL, "w")) }
    class IotestTransfer
      # @return [Integer] bytes moved
      attr_reader :bytes

      # @param options [IotestOptions]
      def initialize(options)
        @options = options
        @bytes = 0
      end

      # The client's side: sends the file, or random bytes.
      #
      # @param sink [IO]
      # @return [self]
      # @scheduling may wait
      def send_to(sink)
        if @options.transmit
          transmit(sink)
        elsif @options.mode == :network
          pump(sink) { |ahead| random(ahead) }
        else
          source { |file| pump(sink) { |ahead| read(file, ahead) } }
        end
        self
      end

      # The server's side: receives.
      #
      # @param source [IO, nil] nil: random bytes
      # @param sink [File, nil] nil: the bytes are dropped
      # @return [self]
      # @scheduling may wait
      def receive(source, sink)
        pump(sink) { |ahead| source ? read(source, ahead) : random(ahead) }
        sink&.fdatasync if @options.cold
        self
      end

      # @param socket [Socket]
      # @return [Socket] the same with -b set
      # @scheduling never waits
      def prepare(socket)
        if @options.buffer
          socket.setsockopt(:SOCKET, :SNDBUF, @options.buffer)
          socket.setsockopt(:SOCKET, :RCVBUF, @options.buffer)
        end
        socket
      end

      private

      def pump(sink)
        ahead = Thread::SizedQueue.new(@options.operations)
        reader = NB.async do
          yield ahead
          nil
        rescue SystemCallError => error
          error
        ensure
          ahead.close
        end
        while (chunk = ahead.pop)
          sink&.write(chunk)
          @bytes += chunk.bytesize
          @spare&.push(chunk)
        end
        error = reader.value and raise error
      end

      # Reads into reused buffers: a new String per chunk takes four times the CPU time, most of it
      # in page faults. One is being read, one is being written, the others wait.
      def read(source, ahead)
        @spare = Thread::Queue.new(Array.new(@options.operations + 2) { String.new })
        loop { ahead << source.readpartial(@options.chunk, @spare.pop) }
      rescue EOFError
        nil
      end

      # The random bytes are made once; otherwise the generator would be measured.
      def random(ahead)
        block = SecureRandom.random_bytes([@options.chunk, @options.length].min)
        whole, rest = @options.length.divmod(block.bytesize)
        whole.times { ahead << block }
        ahead << block.byteslice(0, rest) if rest.positive?
      end

      # sendfile(2): the kernel copies from the page cache to the socket; Ruby never sees a byte.
      def transmit(sink)
        return source { |file| @bytes = IO.copy_stream(file, sink) } if @options.file

        pump(IotestZeroCopy.new(sink)) { |ahead| random(ahead) }
      end

      # Empties the page cache of a file that is to be read cold.
      def source
        File.open(@options.file, "rb") do |file|
          file.advise(:dontneed) if @options.cold
          yield file
        end
      end
    end
  end
end
