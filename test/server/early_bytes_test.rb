# frozen_string_literal: true

require_relative "helper"

# A hijacked socket whose client has sent more than its request.
class ServerEarlyBytesTest < Minitest::Test
  include ServerTest

  READS = {
    "/sysread" => ->(io) { io.sysread(3) }, "/recv" => ->(io) { io.recv(3) },
    "/recv_nonblock" => ->(io) { io.wait_readable && io.recv_nonblock(3) },
    "/read_nonblock" => ->(io) { io.wait_readable && io.read_nonblock(3) },
    "/recvfrom" => ->(io) { io.recvfrom(3)&.first }, "/recvmsg" => ->(io) { io.recvmsg(3)&.first },
    "/recvmsg_nonblock" => ->(io) { io.wait_readable && io.recvmsg_nonblock(3)&.first },
    "/buffer" => ->(io) { (+"x").tap { |buffer| io.sysread(3, buffer) } },
    "/readpartial" => ->(io) { io.readpartial(3) }
  }.freeze

  # First from Ruby's buffer, then from the kernel, up to the end.
  def test_every_way_to_read_gets_them_first
    ended = Thread::Queue.new
    serve do |env|
      io = env["rack.hijack"].call
      read = READS.fetch(env["PATH_INFO"])
      3.times { io.write("<#{read.call(io)}>") }
      ended << (begin
        read.call(io).to_s # recv has no error for the end
      rescue EOFError
        ""
      end)
      io.close
    end
    READS.each_key do |path|
      socket = ask_early(path)
      assert_equal "<ear><ly>", Timeout.timeout(60) { socket.read(9) }, path
      socket.write("new")
      assert_equal "<new>", Timeout.timeout(60) { socket.read(5) }, path
      socket.close_write
      assert_equal "", ended.pop, path
    end
  end

  # Whoever looks at the first bytes to learn what they are.
  def test_a_look_at_them_takes_none
    serve do |env|
      io = env["rack.hijack"].call
      looks = [io.recv(3, Socket::MSG_PEEK), io.recv_nonblock(2, Socket::MSG_PEEK)]
      io.write([*looks, io.recv(5)].join(","))
      io.close
    end
    assert_equal "ear,ea,early", Timeout.timeout(60) { ask_early.read }
  end

  # MSG_WAITALL waits for as many bytes as were asked for; the rest of them comes later.
  def test_a_read_that_waits_for_all_gets_all
    looked = Thread::Queue.new
    serve do |env|
      io = env["rack.hijack"].call
      looked << io.recv(2, Socket::MSG_WAITALL | Socket::MSG_DONTWAIT | Socket::MSG_PEEK)
      buffer = +"x"
      parts = [io.recv(8, Socket::MSG_WAITALL | Socket::MSG_PEEK),
               io.recv(8, Socket::MSG_WAITALL, buffer), buffer]
      io.write(parts.join(","))
      io.close
    end
    socket = ask_early
    assert_equal "ea", looked.pop
    socket.write("ter")
    assert_equal "earlyter,earlyter,earlyter", Timeout.timeout(60) { socket.read }
  end

  def test_a_read_that_is_interrupted_loses_none
    serve do |env|
      io = env["rack.hijack"].call
      interrupted = assert_raises(Timeout::Error) do
        Timeout.timeout(0.05) { io.recv(8, Socket::MSG_WAITALL) }
      end
      io.write("#{interrupted.class},#{io.recv(8)}")
      io.close
    end
    assert_equal "Timeout::Error,early", Timeout.timeout(60) { ask_early.read }
  end

  # Ruby's own recv raises Errno::EAGAIN until 3.3.
  def test_a_time_limit_is_raised_unchanged
    skip "IO#timeout= came with Ruby 3.2" unless IO.method_defined?(:timeout=)
    raised = Thread::Queue.new
    serve do |env|
      io = env["rack.hijack"].call
      io.sysread(5)
      raised << time_limits(io)
      io.close
    end
    ask_early
    usual = UNIXSocket.pair.then { |io, _| NB.run { time_limits(io) } }
    assert_equal IO::TimeoutError, usual.first
    assert_equal usual, raised.pop(timeout: 60)
  end

  private

  def time_limits(io)
    io.timeout = 0.01
    %i[sysread recv].map do |name|
      assert_raises(IOError, SystemCallError) { io.public_send(name, 5) }.class
    end
  end

  def ask_early(path = "/")
    connect.tap { |socket| socket.write("GET #{path} HTTP/1.1\r\n#{HOST}\r\nearly") }
  end
end
