# frozen_string_literal: true

require_relative "helper"
require "neverblock/server/config"
require "neverblock/server/control_address"

# Listeners in Linux's abstract namespace, which have a name but no file: unix://@name, as in Puma.
class ServerAbstractTest < Minitest::Test
  include ServerTest

  def label = @label ||= "neverblock-test-#{Process.pid}-#{object_id}"

  def ask
    UNIXSocket.open("\0#{label}") do |socket|
      socket.write("GET / HTTP/1.1\r\n#{HOST}Connection: close\r\n\r\n")
      Timeout.timeout(60) { socket.read }
    end
  end

  def finish
    server, thread = @servers.pop
    server.stop
    thread.join(60)
  end

  def test_is_no_file
    serve(bind: "unix://@#{label}") { |env| [200, TEXT, [env["REMOTE_ADDR"]]] }
    assert_match(/127.0.0.1\z/, ask)
    assert_equal ["unix://@#{label}"], @server.addresses
    refute_path_exists "@#{label}"
    finish
    assert_raises(Errno::ECONNREFUSED) { ask }
  end

  def test_two_servers_cannot_have_the_same_name
    serve(HELLO, bind: "unix://@#{label}")
    error = assert_raises(Errno::EADDRINUSE) { serve(HELLO, bind: "unix://@#{label}") }
    assert_includes error.message, "unix://@#{label}"
    finish
    serve(HELLO, bind: "unix://@#{label}")
    assert_match(/hello\z/, ask)
  end

  # The environment, in which the next program finds it, can hold no NUL.
  def test_is_handed_over_by_a_text_without_a_nul
    server = NB::Server.new(HELLO, bind: "unix://@#{label}").listen
    address, fd = server.listener_fds.first
    assert_match(/\Afd:\/\/\d+#@#{label}\z/, address)
    heir = NB::Server.new(HELLO, bind: address.sub(/\d+/, copy(fd).to_s)).listen
    assert_equal ["unix://@#{label}"], heir.addresses
    assert_match(/#@#{label}\z/, heir.listener_fds.keys.first)
    heir.close
    assert_raises(Errno::ECONNREFUSED) { ask }
  ensure
    server&.close
  end

  # In this process, each of the two servers closes its own.
  def copy(file)
    original = Socket.for_fd(file)
    original.autoclose = false
    original.dup.tap { |socket| socket.autoclose = false }.fileno
  end

  # Any user of the machine could ask it.
  def test_is_no_control_address
    error = assert_raises(ArgumentError) { NB::Server::ControlAddress.new("unix://@#{label}") }
    assert_includes error.message, "unix://@#{label}"
  end
end
