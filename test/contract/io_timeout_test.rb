# frozen_string_literal: true

require "stringio"
require_relative "../support/contract"

# IO#timeout (Ruby 3.2 and later): a wait of that IO ends with IO::TimeoutError. Blocking Ruby 3.4
# does not keep it in readpartial, sysread and copy_stream; nothing is asked of those.
class IOTimeoutTest < Contract
  READS = {
    "read" => ->(io) { io.read(1) }, "gets" => ->(io) { io.gets },
    "getc" => ->(io) { io.getc }, "readline" => ->(io) { io.readline },
    "readbyte" => ->(io) { io.readbyte.chr }
  }.freeze

  READS.each do |name, call|
    [%w[pipe pipe], %w[socket pair]].each do |kind, maker|
      contract "#{name} of a #{kind} keeps the timeout", ruby: ">= 3.2" do
        reader, writer = keep(*(maker == "pair" ? UNIXSocket.pair : IO.pipe))
        reader.timeout = 0.03
        assert_takes(0.03) { assert_raises(IO::TimeoutError) { call.call(reader) } }
        writer.write("x\n")
        assert_equal "x", call.call(reader)[0]
      end
    end
  end

  contract "write keeps the timeout", ruby: ">= 3.2" do
    _, writer = keep(*UNIXSocket.pair)
    writer.timeout = 0.03
    assert_takes(0.03) { assert_raises(IO::TimeoutError) { writer.write("x" * 5_000_000) } }
  end

  contract "syswrite keeps the timeout", ruby: ">= 3.2" do
    _, writer = keep(*IO.pipe)
    writer.timeout = 0.03
    assert_raises(IO::TimeoutError) { 100.times { writer.syswrite("x" * 65_536) } }
  end

  contract "sysread keeps the timeout", ruby: ">= 3.2", only: :fibers do
    reader, = keep(*IO.pipe)
    reader.timeout = 0.03
    assert_takes(0.03) { assert_raises(IO::TimeoutError) { reader.sysread(1) } }
  end

  contract "data in time makes no timeout", ruby: ">= 3.2" do
    reader, writer = keep(*IO.pipe)
    reader.timeout = 8
    waiting = parked { reader.read(3) }
    %w[a b c].each { |byte| writer.write(byte) && sleep(0.005) }
    assert_equal "abc", waiting.value
  end

  contract "wait_readable without a timeout uses it", ruby: ">= 3.2" do
    reader, = keep(*IO.pipe)
    reader.timeout = 0.02
    assert_takes(0.02) { assert_nil reader.wait_readable }
  end

  contract "it is whatever has divmod", ruby: ">= 3.2" do
    reader, = keep(*IO.pipe)
    reader.timeout = Class.new { def divmod(_) = [0, 0.01] }.new
    assert_raises(IO::TimeoutError) { reader.read(1) }
    assert_nil(assert_takes(0.01) { reader.wait_readable })
  end

  contract "wait_readable has its own timeout", ruby: ">= 3.2" do
    reader, = keep(*IO.pipe)
    reader.timeout = 5
    assert_takes(0.02, slack: 0.4) { assert_nil reader.wait_readable(0.02) }
  end

  [%w[pipe pipe], %w[socket pair]].each do |kind, maker|
    same_as_threads "the errors of a #{kind}", ruby: ">= 3.2" do
      reader, writer = keep(*(maker == "pair" ? UNIXSocket.pair : IO.pipe))
      reader.timeout = writer.timeout = 0.01
      [outcome { reader.read(1) }, outcome { reader.gets }, outcome { reader.eof? },
       outcome { writer.write("x" * 5_000_000) }]
    end
  end

  # Blocking Ruby has a reader that copy_stream reads itself, and one that it calls.
  same_as_threads "copy_stream and a timeout of nothing", ruby: ">= 3.4" do
    reader, = keep(*IO.pipe)
    copied = [0.01, 0].map do |timeout|
      reader.timeout = timeout
      outcome { IO.copy_stream(reader, StringIO.new) }
    end
    [*copied, outcome { reader.read(1) }]
  end

  same_as_threads "recv and accept with a timeout", ruby: ">= 3.2" do
    reader, = keep(*UNIXSocket.pair)
    server = keep(TCPServer.new("127.0.0.1", 0))
    reader.timeout = server.timeout = 0.01
    [outcome { reader.recv(1) }, outcome { server.accept }, outcome { reader.recvmsg }]
  end
end
