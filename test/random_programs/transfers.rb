# frozen_string_literal: true

require "stringio"
require "timeout"

module RandomPrograms
  # How a message goes through a channel: in each pair, one way to write it and the ways to read
  # exactly as much. What a way to read returns does not depend on how the bytes were cut on their
  # way.
  module Transfers
    SHORT = 0.001

    # Of some bytes.
    WRITE = {
      write: ->(io, text) { io.write(text) },
      shovel: ->(io, text) { (io << text).equal?(io) },
      several: ->(io, text) { io.write(text.byteslice(0, 3), text.byteslice(3..).to_s) },
      print: ->(io, text) { io.print(text) },
      syswrite: ->(io, text) { all_of(text) { |rest| once_writable(io) { io.syswrite(rest) } } },
      nonblock: lambda do |io, text|
        all_of(text) { |rest| once_writable(io) { io.write_nonblock(rest) } }
      end,
      quiet: lambda do |io, text|
        all_of(text) do |rest|
          written = io.write_nonblock(rest, exception: false)
          written == :wait_writable ? IO.select(nil, [io]) && 0 : written
        end
      end,
      copied: ->(io, text) { IO.copy_stream(StringIO.new(text), io) }
    }.freeze

    # IO#wait_writable refuses the IO of a child, which is two.
    BLOCKING = WRITE.slice(:write, :shovel, :several, :print, :copied).freeze

    READ = {
      read: ->(io, size) { io.read(size) },
      read_into: ->(io, size) { (+"old").tap { |buffer| io.read(size, buffer) } },
      partial: ->(io, size) { some_of(size) { |rest| io.readpartial(rest) } },
      nonblock: lambda do |io, size|
        some_of(size) { |rest| once_readable(io) { io.read_nonblock(rest) } }
      end,
      quiet: lambda do |io, size|
        some_of(size) do |rest|
          bytes = io.read_nonblock(rest, exception: false)
          bytes == :wait_readable ? IO.select([io]) && "" : bytes
        end
      end,
      patient: lambda do |io, size|
        some_of(size) do |rest|
          Timeout.timeout(SHORT) { io.wait_readable }
          io.readpartial(rest)
        rescue Timeout::Error
          retry
        end
      end
    }.freeze

    # By a channel that buffers.
    BUFFERED = {
      **READ,
      chars: ->(io, size) { Array.new(size) { io.readbyte }.pack("C*") },
      each: ->(io, size) { io.each_byte.first(size).pack("C*") },
      copied: ->(io, size) { StringIO.new.tap { |out| IO.copy_stream(io, out, size) }.string },
      back: lambda do |io, size|
        byte = io.getbyte
        io.ungetbyte(byte)
        io.read(size)
      end
    }.freeze

    # By one that does not.
    RAW = {
      **READ.slice(:partial, :nonblock, :quiet, :patient),
      sysread: ->(io, size) { some_of(size) { |rest| once_readable(io) { io.sysread(rest) } } }
    }.freeze

    SOCKET = {
      **RAW,
      recv: ->(io, size) { some_of(size) { |rest| io.recv(rest) } },
      message: ->(io, size) { some_of(size) { |rest| io.recvmsg(rest).first } }
    }.freeze

    # What OpenSSL has read already, nobody can wait for. It has no ungetbyte and no enumerators.
    TLS = BUFFERED.except(:patient, :back, :each).freeze

    # Of a line, only where it is buffered.
    WRITE_LINE = {
      puts: ->(io, line) { io.puts(line) },
      write: ->(io, line) { io.write(line, "\n") },
      printf: ->(io, line) { io.printf("%s\n", line) }
    }.freeze

    READ_LINE = {
      gets: ->(io, _) { io.gets },
      chomp: ->(io, _) { io.gets(chomp: true) },
      readline: ->(io, _) { io.readline },
      limited: ->(io, size) { [io.gets(size / 2), io.gets] },
      each: ->(io, _) { io.each_line.first },
      by_bytes: lambda do |io, _|
        io.each_byte.take_while { |byte| byte != 10 }.pack("C*")
      end
    }.freeze

    TLS_LINE = READ_LINE.except(:limited, :each, :by_bytes).freeze

    PUSH = {
      push: ->(queue, item) { queue.push(item).equal?(queue) },
      shovel: ->(queue, item) { (queue << item).equal?(queue) }
    }.freeze

    POP = {
      pop: ->(queue, _) { queue.pop },
      at_once: lambda do |queue, _|
        queue.pop(true)
      rescue ThreadError => error
        raise unless error.message == "queue empty"

        sleep SHORT
        retry
      end
    }.freeze

    # Once the writer has closed.
    AT_END = {
      read: lambda(&:read),
      some: ->(io) { io.read(7) },
      gets: lambda(&:gets),
      eof: lambda(&:eof?),
      partial: ->(io) { io.readpartial(7) },
      nonblock: ->(io) { Transfers.once_readable(io) { io.read_nonblock(7) } },
      byte: lambda(&:readbyte)
    }.freeze

    class << self
      # @param channel [Channels::Channel]
      # @param random [Random]
      # @return [Array(Symbol, Symbol, Object)] how to write, how to read, and what
      def pick(channel, random)
        return [key(PUSH, random), key(POP, random), random.rand(1000)] if queue?(channel)
        return [key(WRITE_LINE, random), key(line_readers(channel), random), line(random)] if
          channel.buffered && random.rand(3).zero?

        writers = channel.kind == :popen ? BLOCKING : WRITE
        [key(writers, random), key(readers(channel), random), bytes(random)]
      end

      def queue?(channel) = channel.writer.is_a?(Thread::Queue)

      # @return [Object] what the way to write returns
      def write(channel, way, what)
        ways = queue?(channel) ? PUSH : table(what, WRITE_LINE, WRITE)
        instance_exec(channel.writer, text(what), &ways.fetch(way))
      end

      # @return [Object] what the way to read returns
      def read(channel, way, what)
        ways = queue?(channel) ? POP : table(what, READ_LINE, readers(channel))
        instance_exec(channel.reader, queue?(channel) ? what : text(what).bytesize,
                      &ways.fetch(way))
      end

      # A thread gets EAGAIN from a plain call, too, if the IO was made non-blocking.
      # @return the block's value
      def once_writable(io)
        yield
      rescue Errno::EAGAIN, IO::WaitWritable
        io.to_io.wait_writable
        retry
      end

      # @return the block's value
      def once_readable(io)
        yield
      rescue Errno::EAGAIN, IO::WaitReadable
        io.to_io.wait_readable
        retry
      end

      private

      def key(table, random) = table.keys.sample(random: random)

      def table(what, lines, bytes) = what.first == :line ? lines : bytes

      def text(what) = what.is_a?(Array) ? what.last : what

      def line_readers(channel) = channel.kind == :tls ? TLS_LINE : READ_LINE

      def readers(channel)
        return TLS if channel.kind == :tls
        return BUFFERED if channel.buffered

        channel.reader.is_a?(BasicSocket) ? SOCKET : RAW
      end

      # Pipes and sockets hold less than the largest ones.
      def bytes(random)
        size = [1 + random.rand(20), 1 + random.rand(5_000), 200_000 + random.rand(200_000)]
        [:bytes, random.bytes(size[[0, 0, 0, 1, 1, 2][random.rand(6)]])]
      end

      def line(random)
        size = 2 + random.rand(200)
        [:line, Array.new(size) { ["a", "é", "€", " "].sample(random: random) }.join]
      end

      # Calls the block with what is left of text until all of it is written.
      # @return [Integer] bytes
      def all_of(text)
        done = 0
        done += yield(text.byteslice(done..)) while done < text.bytesize
        done
      end

      # Calls the block with how many bytes are missing until none is.
      # @return [String]
      def some_of(size)
        text = "".b
        text << yield(size - text.bytesize) while text.bytesize < size
        text
      end
    end
  end
end
