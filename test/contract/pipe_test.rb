# frozen_string_literal: true

require_relative "../support/contract"

# Pipes and named pipes: as streams, but one way, and on the file system.
class PipeTest < Contract
  contract "read waits for a write" do
    reader, writer = keep(*IO.pipe)
    got = parked { [reader.read(3), reader.gets, reader.readpartial(10)] }
    writer.write("abc")
    writer.puts("line")
    sleep 0.003
    writer << "rest"
    assert_equal ["abc", "line\n", "rest"], got.value
  end

  contract "write waits for room", gap: 0.040 do
    reader, writer = keep(*IO.pipe)
    written = parked { writer.write("x" * 1_000_000) }
    refute written.ended?
    assert_equal 1_000_000, reader.read(1_000_000).bytesize
    assert_equal 1_000_000, written.value
  end

  contract "closing the writing end ends the reading" do
    reader, writer = keep(*IO.pipe)
    rest = parked { reader.read }
    writer.write("rest")
    writer.close
    assert_equal "rest", rest.value
    assert_raises(EOFError) { reader.readline }
  end

  contract "writing without a reader raises EPIPE" do
    reader, writer = keep(*IO.pipe)
    reader.close
    assert_raises(Errno::EPIPE) { writer.write("x") }
  end

  contract "a waiting writer gets EPIPE when the reader goes" do
    reader, writer = keep(*IO.pipe)
    written = parked { writer.write("x" * 1_000_000) }
    reader.close
    assert_kind_of Errno::EPIPE, written.failure
  end

  %i[readpartial sysread].each do |name|
    same_as_threads "nobody changes the String that #{name} reads into" do
      reader, writer = keep(*IO.pipe)
      buffer = +"old"
      reading = parked { reader.public_send(name, 9, buffer) }
      tried = [outcome { buffer.clear }, outcome { buffer.freeze }, outcome { buffer << "more" }]
      writer.write("new")
      [tried, reading.value, buffer, outcome { buffer << "er" }]
    end
  end

  contract "nonblocking calls do not wait" do
    reader, writer = keep(*IO.pipe)
    assert_raises(IO::WaitReadable) { reader.read_nonblock(1) }
    assert_equal :wait_readable, reader.read_nonblock(1, exception: false)
    nil while writer.write_nonblock("x" * 4096, exception: false) != :wait_writable
    assert_raises(IO::WaitWritable) { writer.write_nonblock("x") }
    assert_equal "x", reader.read_nonblock(1)
    writer.close
    reader.read
    assert_nil reader.read_nonblock(1, exception: false)
    assert_raises(EOFError) { reader.read_nonblock(1) }
  end

  contract "a thousand lines through a chain of pipes", gap: 0.040 do
    pipes = Array.new(5) { keep(*IO.pipe) }
    pipes.each_cons(2) do |(reader, _), (_, writer)|
      strand do
        reader.each_line { |line| writer.write(line) }
        writer.close
      end
    end
    lines = strand { pipes.last.first.readlines }
    1000.times { |i| pipes.first.last.puts(i) }
    pipes.first.last.close
    assert_equal((0...1000).map { |i| "#{i}\n" }, lines.value)
  end

  contract "puts of several and empty strings" do
    reader, writer = keep(*IO.pipe)
    writer.puts("a", "", "b")
    writer.puts
    writer.print("c", "d")
    writer.write("", "e")
    writer.write("")
    writer.close
    assert_equal "a\n\nb\n\ncde", reader.read
  end

  contract "buffered writes and flush" do
    reader, writer = keep(*IO.pipe)
    writer.sync = false
    writer.write("held back")
    assert_nil reader.wait_readable(0)
    got = parked { reader.readpartial(100) }
    writer.flush
    assert_equal "held back", got.value
  end

  contract "ungetc, ungetbyte and each_char" do
    reader, writer = keep(*IO.pipe)
    writer.write("bc")
    writer.close
    reader.ungetc("a")
    reader.ungetbyte("_")
    assert_equal %w[_ a b c], reader.each_char.to_a
  end

  contract "transcoding reads wait too" do
    reader, writer = keep(*IO.pipe("ISO-8859-1:UTF-8"))
    line = parked { reader.gets }
    writer.binmode
    writer.write("caf\xE9".b)
    writer.write("\n")
    assert_equal "café\n", line.value
  end

  contract "a pipe in blocking mode" do
    reader, writer = keep(*IO.pipe)
    require "io/nonblock"
    [reader, writer].each { |io| io.nonblock = false }
    got = strand { reader.read(2) }
    writer.write("ab")
    assert_equal "ab", got.value
  end

  contract "a blocking-mode pipe whose reader comes first lets others run" do
    reader, writer = keep(*IO.pipe)
    require "io/nonblock"
    [reader, writer].each { |io| io.nonblock = false }
    got = parked { reader.read(2) }
    writer.write("ab")
    assert_equal "ab", got.value
  end

  contract "a named pipe, both ends open" do
    in_directory do |directory|
      path = File.join(directory, "fifo")
      File.mkfifo(path)
      both = keep(File.open(path, "r+"))
      reader = keep(File.open(path, File::RDONLY | File::NONBLOCK))
      line = parked { reader.gets }
      both.syswrite("through the fifo\n")
      assert_equal "through the fifo\n", line.value
    end
  end

  contract "opening a named pipe waits for the other end", gap: nil do
    in_directory do |directory|
      path = File.join(directory, "fifo")
      File.mkfifo(path)
      child = spawn("cat #{path}", out: File::NULL)
      File.open(path, "w") { |fifo| fifo.write("x") }
      Process.wait(child)
      assert_predicate $?, :success?
    end
  end

  # In a thread each is one writev(2). Ruby gives a scheduler the line and its end one by one.
  contract "lines that several write to one pipe, or one file, stay whole" do
    in_directory do |directory|
      reader, writer = keep(*IO.pipe)
      file = keep(File.open(File.join(directory, "lines"), "w+"))
      writer.sync = file.sync = true
      lines = parked { reader.each_line.to_a }
      writers = Array.new(8) do |strand|
        parked do
          100.times do |number|
            [writer, file].each { |io| io.puts("#{strand} #{number} é") }
            [writer, file].each { |io| io.write("#{strand} ", number, " é\n") }
          end
        end
      end
      writers.each(&:value)
      writer.close
      expected = (0..7).flat_map { |strand| Array.new(200) { |n| "#{strand} #{n / 2} é\n" } }.sort
      assert_equal expected, lines.value.sort
      file.rewind
      assert_equal expected, file.readlines.sort
    end
  end

  contract "write of several strings" do
    reader, writer = keep(*IO.pipe)
    writer.sync = true
    latin = (+"\xE9x").force_encoding("ISO-8859-1")
    assert_equal 10, writer.write("a", :b, nil, 12, "é", "\xFF".b, latin, "z")
    assert_equal "ab12é\xFF\xE9xz".b, reader.readpartial(100).b
    assert_equal 0, writer.write
    assert_equal 0, writer.write("", "")
    assert_nil writer.puts(%w[x y], "z\n")
    assert_equal "x\ny\nz\n", reader.readpartial(100)
    assert_raises(IOError) { reader.write("a", "b") }
    assert_raises(NoMethodError) { writer.write("a", BasicObject.new) }
  end

  def in_directory(&block) = Dir.mktmpdir("nb", &block)
end
