# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "neverblock/server/control"
require "pty"
require "socket"
require_relative "../support/program"

# `nb stats` against whatever listens at the address.
class StatsTest < Minitest::Test
  # @yieldparam address [String] of a server that gives this answer once
  def answering(answer)
    server = TCPServer.new("127.0.0.1", 0)
    thread = Thread.new do
      server.accept.then do |client|
        client.gets("\r\n\r\n")
        client.write(answer)
        client.close
      end
    end
    yield("tcp://127.0.0.1:#{server.local_address.ip_port}").tap { thread.join }
  ensure
    server&.close
  end

  # @return [Array(String, String, Integer)] stdout, stderr, status
  def ask(answer, *what)
    out, errors, status = answering(answer) { |address| Program.nb("stats", address, *what) }
    [out, errors, status.exitstatus]
  end

  # @return [String] what a terminal gets
  def ask_on_a_terminal(answer)
    shown = +""
    answering(answer) do |address|
      PTY.spawn(*Program::NB, "stats", address) do |output, _, pid|
        loop { shown << output.readpartial(1000) }
      rescue EOFError, Errno::EIO # its end
        Process.wait(pid)
      end
    end
    shown
  end

  def test_an_answer = assert_equal(["{}\n", "", 0], ask("HTTP/1.0 200 OK\r\n\r\n{}\n"))

  # The name of a task may come from a client: it obeys no terminal, but stays as it is in a pipe.
  def test_what_a_terminal_would_obey
    assert_equal ["a\e[31m\n", "", 0], ask("HTTP/1.0 200 OK\r\n\r\na\e[31m\n")
    shown = ask_on_a_terminal("HTTP/1.0 200 OK\r\n\r\na\e[31m\nb\n")
    assert_equal "a\\x1b[31m\r\nb\r\n", shown
    _, errors, = ask("HTTP/1.0 404 No\r\n\r\na\e[31m\n", "ready")
    assert_match(/answers 404 to ready: a\\x1b/, errors)
  end

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
      assert_match(/\Anb stats: nothing answers at .*: the answer is not HTTP/, errors)
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
