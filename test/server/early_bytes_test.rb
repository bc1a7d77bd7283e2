# frozen_string_literal: true

require_relative "helper"

# A hijacked socket whose client has sent more than its request.
class ServerEarlyBytesTest < Minitest::Test
  include ServerTest

  READS = {
    "/sysread" => ->(io) { io.sysread(3) }, "/recv" => ->(io) { io.recv(3) },
    "/recv_nonblock" => ->(io) { io.wait_readable && io.recv_nonblock(3) },
    "/read_nonblock" => ->(io) { io.wait_readable && io.read_nonblock(3) },
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
      socket = connect
      socket.write("GET #{path} HTTP/1.1\r\n#{HOST}\r\nearly")
      assert_equal "<ear><ly>", Timeout.timeout(60) { socket.read(9) }, path
      socket.write("new")
      assert_equal "<new>", Timeout.timeout(60) { socket.read(5) }, path
      socket.close_write
      assert_equal "", ended.pop, path
    end
  end
end
