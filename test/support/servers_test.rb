# frozen_string_literal: true

require "minitest/autorun"
require "net/http"
require_relative "program"
require_relative "servers"

class ServersTest < Minitest::Test
  def teardown = Servers.stop("delayd")

  def fetch
    Servers.fetch("delayd") { |port, _| [*Program::NB, "delayd", "--port", port.to_s] }
  end

  def test_starts_a_server_once_and_ends_it
    server = fetch
    assert_same server, fetch
    assert_equal "done", Net::HTTP.get(URI("http://127.0.0.1:#{server.port}/"))
    assert_path_exists server.folder
    Servers.stop("delayd")
    refute_path_exists server.folder
    assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", server.port) }
  end

  def test_says_why_one_does_not_start
    error = assert_raises(RuntimeError) do
      Servers.fetch("broken") { |_, _| [RbConfig.ruby, "-e", "abort 'no such database'"] }
    end
    assert_match(/does not answer on port \d+:\nno such database/, error.message)
  end

  def test_says_what_was_with_one_that_ended_by_itself
    server = fetch
    File.write("#{server.folder}/log.txt", "out of memory\n", mode: "a")
    Process.kill(:KILL, server.pid)
    error = nil
    Timeout.timeout(60) { sleep 0.01 until error = (fetch && nil rescue $!) } # rubocop:disable Style/RescueModifier
    assert_match(/\Adelayd ended by itself \(.*SIGKILL.*\):\n.*out of memory\n\z/m, error.message)
    assert_output(nil, error.message) { Servers.stop("delayd") }
    assert_equal "done", Net::HTTP.get(URI("http://127.0.0.1:#{fetch.port}/"))
  end
end
