# frozen_string_literal: true

require_relative "../support/contract"

# What every stream class does (A1): one test class per kind of connected pair, plain and TLS.
module StreamContract
  # Reading: a reader that came first is woken by what arrives later.
  module Reading
    def self.define(base)
      base.contract "gets waits for the whole line" do
        client, server = pair
        line = parked { server.gets }
        client.write("hel")
        sleep 0.003
        client.write("lo\nnext\n")
        assert_equal "hello\n", line.value
        assert_equal "next\n", server.gets
      end

      base.contract "read of n bytes waits for all of them" do
        client, server = pair
        bytes = parked { server.read(6) }
        %w[ab cd ef].each { |part| client.write(part) && sleep(0.002) }
        assert_equal "abcdef", bytes.value
      end

      base.contract "read without length ends with the stream" do
        client, server = pair
        all = parked { server.read }
        client.write("all of it")
        client.close
        assert_equal "all of it", all.value
        assert_nil server.gets
      end

      base.contract "readpartial gives what is there, then EOFError", chaos: false do
        client, server = pair
        part = parked { server.readpartial(100) }
        client.write("some")
        assert_equal "some", part.value
        client.close
        assert_raises(EOFError) { server.readpartial(1) }
      end

      base.contract "sysread and syswrite", chaos: false do
        client, server = pair
        part = parked { server.sysread(100) }
        assert_equal 4, client.syswrite("some")
        assert_equal "some", part.value
      end

      base.contract "readline, each_line, eof and getc" do
        client, server = pair
        lines = parked do
          first = [server.getc, server.readline]
          server.each_line { |line| first << line }
          first << server.eof?
        end
        client.puts("one", "two")
        client.print("three\nfour")
        client.close
        assert_equal ["o", "ne\n", "two\n", "three\n", "four", true], lines.value
      end

      base.contract "readline at the end raises EOFError" do
        client, server = pair
        line = parked { server.readline }
        client.close
        assert_kind_of EOFError, line.failure
      end

      base.contract "two readers of one stream each get their part" do
        client, server = pair
        readers = Array.new(2) { parked { server.sysread(1) } }
        client.write("a")
        sleep 0.005
        client.write("b")
        assert_equal %w[a b], readers.map(&:value).sort
      end
    end
  end

  # Writing: a writer waits for room, never loses a byte, and never stops a reader.
  module Writing
    BIG = Random.new(1).bytes(3_000_000).freeze

    def self.define(base)
      base.contract "a big write waits for the reader", gap: 0.060 do
        client, server = pair
        written = parked { client.write(BIG) }
        got = +""
        got << server.readpartial(50_000) while got.bytesize < BIG.bytesize
        assert_equal BIG.bytesize, written.value
        assert_equal BIG.hash, got.hash
      end

      base.contract "both directions at once", gap: 0.060 do
        client, server = pair
        writers = [client, server].map { |io| strand { io.write(BIG) } }
        readers = [client, server].map { |io| strand { io.read(BIG.bytesize) } }
        assert_equal [BIG.bytesize] * 2, writers.map(&:value)
        assert_equal [BIG.hash] * 2, readers.map { |reader| reader.value.hash }
      end

      base.contract "empty and many-part writes" do
        client, server = pair
        assert_equal 0, client.write("")
        client.puts("")
        client.write("a", "", "b") if client.method(:write).arity != 1
        client << "c"
        client.close
        assert_match(/\A\n(ab)?c\z/, server.read)
      end

      base.contract "a write to a closed peer raises as in blocking Ruby" do
        client, server = pair
        server.close
        error = assert_raises(SystemCallError, OpenSSL::SSL::SSLError) do
          200.times { client.write("x" * 10_000) }
        end
        refute_empty error.message
      end
    end
  end

  # For writes to a stream that nobody reads: the kernel still makes room now and then, when what
  # was sent is acknowledged.
  module Full
    def assert_full(&block) = assert(2000.times.any?(&block), "never full")
  end

  # The *_nonblock calls never wait, under a scheduler too.
  module Nonblocking
    def self.define(base)
      base.contract "read_nonblock does not wait" do
        client, server = pair
        assert_raises(IO::WaitReadable) { server.read_nonblock(5) }
        assert_equal :wait_readable, server.read_nonblock(5, exception: false)
        client.write("data")
        server.to_io.wait_readable(1)
        assert_equal "data", server.read_nonblock(5)
        client.close
        server.to_io.wait_readable(1)
        assert_nil server.read_nonblock(5, exception: false)
      end

      base.contract "write_nonblock does not wait", gap: 0.040 do
        client, server = pair
        assert_equal 4, client.write_nonblock("data")
        assert_full { client.write_nonblock("x" * 100_000, exception: false) == :wait_writable }
        assert_full do
          client.write_nonblock("x" * 100_000) && false
        rescue IO::WaitWritable
          true
        end
        assert_equal "data", server.read(4)
      end
    end
  end

  Streams::ALL.each do |name, maker|
    const_set("#{name.gsub(/\W/, "")}Test", Class.new(Contract) do
      include Full
      define_method(:pair) { maker.call(self) }
      [Reading, Writing, Nonblocking].each { |part| part.define(self) }
    end)
  end
end
