# frozen_string_literal: true

require_relative "helper"

# The programs in C and the servers beside the cells, as they are.
class BenchServerTest < Minitest::Test
  def test_the_echo_server_answers_until_it_is_stopped
    server = Bench::Server.start(:c_echo, ruby: nil)
    answer = TCPSocket.open("127.0.0.1", server.port) do |socket|
      socket.write("abc")
      socket.readpartial(16)
    end

    assert_equal "abc", answer
    server.stop
    assert_raises(Errno::ECONNREFUSED) { TCPSocket.open("127.0.0.1", server.port) }
  ensure
    server&.stop
  end

  def test_the_http_server_answers_each_request_of_a_connection
    server = Bench::Server.start(:c_http, ruby: nil)
    TCPSocket.open("127.0.0.1", server.port) do |socket|
      3.times do
        # In two pieces: the end of the head lies across them.
        socket.write("GET / HTTP/1.1\r\n\r")
        socket.write("\n")
        assert_equal "HTTP/1.1 200 OK\r\n", socket.gets
        socket.gets("\r\n\r\n")
        assert_equal "Hello, World!", socket.read(13)
      end
    end
  ensure
    server&.stop
  end

  %w[c_echo c_http].each do |name|
    define_method("test_#{name}_counts_without_errors") do
      [%w[both 4 10 0.05], %w[apart 4 0.05]].each do |arguments|
        sample = JSON.parse(IO.popen([Bench::Compiled.program(name), *arguments], &:read))

        assert_equal 0, sample["errors"]
        assert_operator sample["value"], :>, 0
      end
    end
  end

  def test_a_server_that_does_not_start_says_so
    error = assert_raises(Bench::Error) do
      command = [RbConfig.ruby, "-e", "abort 'no room'", "--"]
      Bench::Server.start(:delayd, ruby: nil, delayd: command)
    end

    assert_match(/ended before it answered: no room/, error.message)
  end
end
