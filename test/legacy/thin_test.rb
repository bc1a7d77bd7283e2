# frozen_string_literal: true

require "minitest/autorun"
require "net/http"
require_relative "../support/clock"
require_relative "../support/program"
require_relative "../support/servers"

# A real Thin behind the door of 2008: its requests wait side by side.
class LegacyThinTest < Minitest::Test
  include Clock

  APP = <<~'RUBY'
    require "never_block/server/thin"
    Thin::Logging.silent = true
    sleeping = most = 0
    held = limit = nil
    app = lambda do |env|
      case env["PATH_INFO"]
      when "/sleep"
        sleep 0.3
      when "/meet"
        limit ||= Time.now + 10
        most = [most, sleeping += 1].max
        sleep 0.005 until most == 10 || Time.now > limit
        sleep 0.3
        sleeping -= 1
      when "/hold"
        held = true
        sleep 0.005 while held
      when "/release" then next [200, {}, [held.tap { held = false }.to_s]]
      when "/most" then next [200, { "content-type" => "text/plain" }, [most.to_s]]
      when "/error" then raise "broken"
      when "/wait" then NB.await { |resume| EM.add_timer(0.05) { resume.call } }
      when "/yield"
        fiber = Fiber.current
        EM.add_timer(0.05) { fiber.resume }
        Fiber.yield
      when "/async"
        EM.add_timer(0.05) { env["async.callback"].call([200, {}, ["later"]]) }
        throw :async
      end
      [200, { "content-type" => "text/plain" }, [NB.neverblocking?.to_s, env["rack.input"].read]]
    end
    server = Thin::Server.new("127.0.0.1", Integer(ARGV.first), app, signals: false)
    server.fiber_pool_size = 10
    server.start
  RUBY

  def setup
    @port = Servers.fetch("thin") do |port, _|
      [*Program::RUBY, "-W0", "-I", File.join(Program::ROOT, "lib"), "-e", APP, port.to_s]
    end.port
  end

  def test_ten_requests_wait_side_by_side_and_twenty_in_two_turns
    { 10 => 0.3, 20 => 0.6 }.each do |count, least|
      start = clock
      bodies = Array.new(count) { Thread.new { get("/meet").body } }.map(&:value)
      assert_equal [count, ["true"]], [bodies.size, bodies.uniq]
      assert_operator clock - start, :>=, least
      assert_equal "10", get("/most").body
    end
  end

  def test_requests_may_wait_for_callbacks_in_every_way
    assert_equal %w[true true later], %w[/wait /yield /async].map { |path| get(path).body }
  end

  def test_a_quick_one_overtakes
    slow = Thread.new { get("/hold").body }
    Timeout.timeout(20) { sleep 0.01 until get("/release").body == "true" }
    assert_equal "true", slow.value
  end

  def test_one_connection_has_many_requests_with_bodies
    Net::HTTP.start("127.0.0.1", @port) do |http|
      5.times { |i| assert_equal "truebody #{i}", http.post("/sleep?", "body #{i}").body if i < 2 }
      5.times { |i| assert_equal "truebody #{i}", http.post("/", "body #{i}").body }
    end
  end

  def test_an_error_is_answered_and_harms_nobody
    12.times { assert_equal "500", get("/error").code }
    assert_equal "200", get("/").code
  end

  def test_clients_that_leave_harm_nobody
    15.times do
      TCPSocket.open("127.0.0.1", @port) { _1.write("GET /sleep HTTP/1.1\r\nHost: x\r\n\r\n") }
    end
    assert_equal "true", get("/").body
  end

  private

  def get(path) = Net::HTTP.get_response(URI("http://127.0.0.1:#{@port}#{path}"))
end
