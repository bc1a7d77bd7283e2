# frozen_string_literal: true

require "io/console"
require "io/nonblock"
require "pty"
require "stringio"
require_relative "../support/contract"

# IO.copy_stream between files, pipes, sockets and objects.
class CopyStreamTest < Contract
  BYTES = Random.new(3).bytes(700_000).freeze

  contract "file to file and file to socket", gap: 0.060 do
    temporary do |source, target|
      assert_equal BYTES.bytesize, IO.copy_stream(source, target)
      assert_equal BYTES.hash, File.binread(target).hash
      client, server = keep(*UNIXSocket.pair)
      got = strand { server.read(BYTES.bytesize) }
      assert_equal BYTES.bytesize, IO.copy_stream(source, client)
      assert_equal BYTES.hash, got.value.hash
    end
  end

  same_as_threads "a target that cannot be written, and a source that cannot be read" do
    target, writer = keep(*IO.pipe)
    source = keep(*UNIXSocket.pair).first.tap { |one| one.nonblock = false }
    [[[source, target]], [[source, target], 4, 2], [[keep(File.open(File::NULL)), target]],
     [[writer, StringIO.new]]].map { |ends, *rest| outcome { IO.copy_stream(*ends, *rest) } }
  end

  contract "socket to file", gap: 0.060 do
    temporary do |_, target|
      client, server = keep(*UNIXSocket.pair)
      writing = strand { client.write(BYTES).tap { client.close } }
      assert_equal BYTES.bytesize, IO.copy_stream(server, target)
      assert_equal BYTES.bytesize, writing.value
      assert_equal BYTES.hash, File.binread(target).hash
    end
  end

  contract "socket to socket through a third", gap: 0.060 do
    one, two = keep(*UNIXSocket.pair)
    three, four = keep(*UNIXSocket.pair)
    copying = strand { IO.copy_stream(two, three).tap { three.close } }
    writing = strand { one.write(BYTES).tap { one.close } }
    assert_equal BYTES.hash, four.read.hash
    assert_equal [BYTES.bytesize] * 2, [copying.value, writing.value]
  end

  contract "pipe to pipe waits at both ends", gap: 0.060 do
    reader, writer = keep(*IO.pipe)
    far, near = keep(*IO.pipe)
    copying = parked { IO.copy_stream(reader, near, 300_000) }
    writing = strand { writer.write(BYTES[0, 300_000]) }
    sleep 0.005
    assert_equal BYTES[0, 300_000].hash, far.read(300_000).hash
    assert_equal [300_000, 300_000], [copying.value, writing.value]
  end

  contract "with length and offset" do
    temporary do |source, target|
      assert_equal 100, IO.copy_stream(source, target, 100, 50)
      assert_equal BYTES[50, 100], File.binread(target)
    end
  end

  contract "objects that are not IO" do
    reader, writer = keep(*IO.pipe)
    assert_equal 3, IO.copy_stream(StringIO.new("abc"), writer)
    writer.close
    into = StringIO.new
    assert_equal 3, IO.copy_stream(reader, into)
    assert_equal "abc", into.string
  end

  contract "to a peer that is gone" do
    temporary do |source, _|
      client, server = keep(*UNIXSocket.pair)
      server.close
      assert_raises(Errno::EPIPE) { IO.copy_stream(source, client) }
    end
  end

  # The other end is a thread, which goes on even if the loop stands still; the ticker tells.
  contract "from an IO in blocking mode" do
    temporary do |_, target|
      [target, keep(File.open(target, "w")), keep(*UNIXSocket.pair).first].each do |to|
        reader, writer = blocking(*IO.pipe)
        writer.write("zabc")
        assert_equal "z", reader.getc
        rest = later { writer.write("def") }
        assert_equal 6, IO.copy_stream(reader, to, 6)
        rest.join
        assert_equal "abcdef", File.read(target) unless to.is_a?(UNIXSocket)
      end
    end
  end

  contract "what a Tempfile gets from an IO in blocking mode is in the file" do
    reader, writer = blocking(*IO.pipe)
    writer.write("abc")
    Tempfile.create do |file|
      tempfile = Tempfile.new # no IO, but with a path
      [file, tempfile].each do |to|
        writer.write("def")
        assert_equal 3, IO.copy_stream(reader, to, 3)
      end
      assert_equal %w[abc def], [File.read(file), File.read(tempfile.path)]
      tempfile.close!
    end
  end

  contract "from a terminal" do
    master, slave = keep(*PTY.open)
    slave.raw!
    near, far = keep(*UNIXSocket.pair)
    rest = later { slave.write("abc") }
    assert_equal 3, IO.copy_stream(master, near, 3)
    assert_equal "abc", far.read(3)
    rest.join
  end

  contract "to an IO in blocking mode", gap: 0.060 do
    temporary do |source, _|
      [source, keep(File.open(source))].each do |from|
        reader, writer = blocking(*IO.pipe)
        writer.sync = false
        writer.write("before ")
        got = later { reader.read(7 + BYTES.bytesize) }
        assert_equal BYTES.bytesize, IO.copy_stream(from, writer)
        assert_equal "before ".b + BYTES, got.value
      end
    end
  end

  contract "between two in blocking mode, with a length" do
    reader, writer = blocking(*IO.pipe)
    far, near = blocking(*IO.pipe)
    rest = later { writer.write("abcdef") }
    near.set_encoding("UTF-16LE")
    assert_equal 4, IO.copy_stream(reader, near, 4)
    assert_equal %w[abcd ef], [far.readpartial(10), reader.readpartial(10)]
    rest.join
  end

  same_as_threads "what an IO in blocking mode raises" do
    reader, writer = blocking(*IO.pipe)
    far, near = blocking(*IO.pipe)
    far.close
    later { writer.write("abc") }.join
    [outcome { IO.copy_stream(writer, near) }, outcome { IO.copy_stream(reader, far) },
     outcome { IO.copy_stream(reader, writer, 1, 1) },
     outcome { IO.copy_stream(reader, "/nix/nix") },
     outcome { IO.copy_stream(reader, File::NULL, 1, 1) }, outcome { IO.copy_stream(reader) },
     outcome { IO.copy_stream(reader, near) }]
  end

  def temporary
    Dir.mktmpdir("nb") do |directory|
      source, target = %w[source target].map { |name| File.join(directory, name) }
      File.binwrite(source, BYTES)
      yield source, target
    end
  end
end
