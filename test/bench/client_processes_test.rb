# frozen_string_literal: true

require_relative "helper"

# Table A7: the rates of several processes add up, and what went wrong in any of them is told.
class BenchClientProcessesTest < Minitest::Test
  include BenchHelper

  def setup
    @server = Bench::Server.start(:delayd, ruby: Bench::RubyTarget.new(yjit: false))
  end

  def teardown = @server.stop

  def sample(port = @server.port)
    cell("a7", { runtime: "nb", processes: 2, delay_ms: 0, requests: 20 }, port: port)
  end

  def test_two_processes_make_the_requests_of_two
    found = sample

    assert_equal [0, nil], found.values_at("errors", "failure")
    assert_operator found["operations"], :>=, 40
    assert_equal 0, found["operations"] % 20
    assert_operator found["value"], :>, 0
    assert_operator found["metrics"]["cpu_us_per_op"], :>, 0
  end

  def test_a_client_that_fails_fails_the_sample
    unused = TCPServer.open("127.0.0.1", 0) { |server| server.local_address.ip_port }
    found = sample(unused)

    assert_operator found["errors"], :>=, 40
    assert_match(/ECONNREFUSED/, found["first_error"])
  end
end
