# frozen_string_literal: true

require "minitest/autorun"
require "net/http"
require "neverblock"
require "neverblock/cli/delay_server"
require "neverblock/cli/delay_server_portable"
require_relative "../support/patience"
require_relative "../support/timing"

# The delay server of systems without epoll, on any system.
class DelayServerPortableTest < Minitest::Test
  include Patience

  class Portable < NB::DelayServer
    include NB::DelayServerPortable

    # Those of C are the superclass's.
    NB::DelayServerPortable.instance_methods(false).each do |name|
      define_method(name, NB::DelayServerPortable.instance_method(name))
    end
    %i[listen answer].each { |name| define_method(name, NB::DelayServerPortable.instance_method(name)) }
  end

  def serve(**options)
    server = Portable.new(**options)
    running = Thread.new { server.run }
    yield server, server.port
  ensure
    server&.stop
    running&.join(60) || flunk("it goes on after stop")
    server.close
  end

  def get(port, path) = Net::HTTP.get_response(URI("http://127.0.0.1:#{port}#{path}"))

  def test_answers_after_the_delay_and_never_before
    serve(delay: 0.02, body_bytes: 10) do |server, port|
      [["/", 0.02, "donedonedo"], ["/?ms=5", 0.005, "donedonedo"], ["/?ms=0&bytes=3&x", 0, "don"],
       ["/?ms=28.6&bytes=0", 0.0286, ""]].each do |path, delay, body|
        start = clock
        response = get(port, path)
        assert_equal ["200", body], [response.code, response.body]
        took = clock - start
        assert_operator took, :>=, delay
        assert_in_time took, delay + 1
      end
      assert_equal 1_000_001, get(port, "/?ms=0&bytes=1000001").body.bytesize
      assert_equal [5, 5, 0], server.stats.values_at(:accepted, :answered, :refused)
    end
  end

  def test_requests_wait_beside_each_other
    serve(delay: 0.3) do |_, port|
      start = clock
      Array.new(50) { Thread.new { get(port, "/") } }.each(&:join)
      assert_in_time clock - start, 2
    end
  end

  def test_refuses_with_the_words_of_the_other
    serve do |server, port|
      %w[/?ms=x /?ms=-1 /?ms=86400001 /?ms= /?bytes=1.5 /?bytes=1000000000001].each do |path|
        response = get(port, path)
        assert_equal "400", response.code
        assert_match(/\A(ms|bytes)= takes /, response.body)
        assert_equal "close", response["connection"]
      end
      assert_equal 6, server.stats[:refused]
    end
  end

  def test_closes_where_it_is_to
    serve(close: true) { |_, port| assert_equal "close", get(port, "/")["connection"] }
  end

  def test_several_share_a_port
    serve(shared: true) do |_, port|
      serve(port: port, shared: true) { 20.times { assert_equal "done", get(port, "/").body } }
    end
  end

  def test_runs_once_and_only_while_open
    serve do |server, _|
      Timeout.timeout(60) { sleep 0.001 until server.instance_variable_get(:@running) }
      assert_raises(IOError) { server.run }
      assert_raises(IOError) { server.close }
    end
    closed = Portable.new.tap(&:close)
    assert_raises(IOError) { closed.run }
    assert_raises(IOError) { closed.port }
  end

  def test_a_port_in_use_is_an_error_of_the_system
    serve { |_, port| assert_raises(Errno::EADDRINUSE) { Portable.new(port: port) } }
  end
end
