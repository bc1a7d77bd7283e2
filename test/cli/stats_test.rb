# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "neverblock/server/control"
require "socket"
require_relative "../support/program"

# `nb stats` against whatever listens at the address.
class StatsTest < Minitest::Test
  # @return [Array(String, String, Integer)] stdout, stderr, status
  def ask(answer, *what)
    server = TCPServer.new("127.0.0.1", 0)
    thread = Thread.new do
      server.accept.then do |client|
        client.gets("\r\n\r\n")
        client.write(answer)
        client.close
      end
    end
    address = "tcp://127.0.0.1:#{server.local_address.ip_port}"
    out, errors, status = Program.nb("stats", address, *what)
    thread.join
    [out, errors, status.exitstatus]
  ensure
    server&.close
  end

  def test_an_answer = assert_equal(["{}\n", "", 0], ask("HTTP/1.0 200 OK\r\n\r\n{}\n"))

  # It is no failure to be asked; the status says it, for scripts.
  def test_a_server_that_is_not_ready
    assert_equal ["{}\n", "", 1], ask("HTTP/1.0 503 No\r\n\r\n{}\n", "ready")
  end

  def test_another_http_server
    out, errors, status = ask("HTTP/1.0 404 No\r\n\r\nno", "ready")
    assert_match(/\Anb stats: tcp:.* answers 404 to ready: no$/, errors)
    assert_equal ["", 1], [out, status]
  end

  def test_what_is_no_http_server
    ["SSH\r\n", "", "HTTP/1.0 abc\r\n\r\n"].each do |answer|
      out, errors, status = ask(answer)
      assert_match(/\Anb stats: nobody answers at .*: what is there is no HTTP/, errors)
      assert_equal ["", 1], [out, status]
    end
  end

  # A port that accepts and says nothing.
  def test_silence
    server = TCPServer.new("127.0.0.1", 0)
    address = "tcp://127.0.0.1:#{server.local_address.ip_port}"
    error = assert_raises(Errno::ETIMEDOUT) { NB::Server::Control.ask(address, within: 0.2) }
    assert_match(/no answer in 0.2 s/, error.message)
  ensure
    server&.close
  end
end
