# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "connection_pool"
require "excon"
require "set" # httpx 1.9 forgets it on Ruby 3.1
require "httpx"
require "net/http/persistent"
require_relative "../support/subprocess"
require_relative "../support/token_server"

# One client object that all share, as its library allows to threads: each fiber reads the answers
# to its own requests, even after others were interrupted in the middle of theirs.
class SharedClientTest < Minitest::Test
  COUNT = 50
  LIMIT = 60
  # From an origin, a client; it gets a path and returns the bodies of the answers.
  CLIENTS = {
    "excon" => lambda do |origin|
      http = Excon.new(origin, persistent: true)
      ->(path) { [http.get(path: path).body] }
    end,
    "excon_idempotent" => lambda do |origin|
      http = Excon.new(origin, persistent: true, idempotent: true, retry_limit: 2)
      ->(path) { [http.get(path: path).body] }
    end,
    "excon_pipelined" => lambda do |origin|
      http = Excon.new(origin, persistent: true)
      ->(path) { http.requests(Array.new(2) { { method: :get, path: path } }).map(&:body) }
    end,
    "excon_not_persistent" => lambda do |origin|
      http = Excon.new(origin)
      ->(path) { [http.get(path: path).body] }
    end,
    "httpx_persistent" => lambda do |origin|
      http = HTTPX.plugin(:persistent).with(origin: origin)
      ->(path) { [http.get(path).raise_for_status.body.to_s] }
    end,
    "net_http_persistent" => lambda do |origin|
      http = Net::HTTP::Persistent.new
      ->(path) { [http.request(URI(origin + path)).body] }
    end,
    "net_http_in_a_connection_pool" => lambda do |origin|
      uri = URI(origin)
      pool = ConnectionPool.new(size: COUNT, timeout: LIMIT) { Net::HTTP.start(uri.host, uri.port) }
      ->(path) { pool.with { |http| [http.get(path).body] } }
    end
  }.freeze

  def setup = @server = TokenServer.new
  def teardown = @server.close

  CLIENTS.each do |name, client|
    define_method("test_#{name}_in_fibers") do
      get = client[@server.origin]
      NB.run do
        NB.timeout(LIMIT) do
          Array.new(COUNT) { |i| NB.async { use(get, i) { |held| NB.timeout(0.05, &held) } } }
            .each(&:value)
        end
      end
    end

    define_method("test_#{name}_in_threads") do
      get = client[@server.origin]
      users = Array.new(COUNT) { |i| Thread.new { use(get, i) } }
      users.each { |thread| assert thread.join(LIMIT), "hangs" }
    end

    define_method("test_#{name}_after_cancels") do
      get = client[@server.origin]
      NB.run do
        NB.timeout(LIMIT) do
          held = Array.new(COUNT) { |i| NB.async { get["/held#{i}"] } }
          others = Array.new(COUNT) { |i| NB.async { use(get, i) } }
          sleep 0.001 until @server.open >= COUNT
          held.each(&:cancel).each(&:wait)
          others.each(&:value)
        end
      end
    end
  end

  # As with Excon: the pool is the session's.
  def test_the_next_fiber_uses_the_connection_of_the_last_one
    http = HTTPX.plugin(:persistent).with(origin: @server.origin)
    NB.run { 5.times { |i| NB.async { http.get("/#{i}").raise_for_status }.wait } }
    assert_equal 1, @server.accepted
    http.close
  end

  # HTTPX takes a request whose answer has begun for one that is not in flight.
  def test_an_answer_that_nobody_reads_to_its_end_costs_its_connection
    http = HTTPX.plugin(:persistent, pool_options: { max_connections_per_origin: 1,
                                                     pool_timeout: LIMIT })
                .plugin(:stream).with(origin: @server.origin)
    NB.run do
      NB.timeout(LIMIT) do
        3.times do |i|
          NB.async { http.get("/held#{i}", stream: true).each { break } }.wait # rubocop:disable Lint/UnreachableLoop
          own(->(path) { [http.get(path, stream: true).each.to_a.join] }, "/#{i}")
        end
      end
    end
  end

  def test_a_request_from_the_block_that_reads_an_answer_leaves_that_answer_alone
    http = HTTPX.plugin(:persistent).plugin(:stream).with(origin: @server.origin)
    NB.run do
      NB.timeout(LIMIT) do
        text = +""
        http.get("/outer", stream: true).each do |part|
          text << part
          own(->(path) { [http.get(path).body.to_s] }, "/inner")
        end
        assert_equal TokenServer.body("/outer"), text
      end
    end
  end

  # As the one socket of a thread does; each of the many that fibers leave would fail one request.
  def test_idle_sockets_that_the_server_closed_fail_one_request
    http = Excon.new(@server.origin, persistent: true)
    NB.run do
      NB.timeout(LIMIT) do
        Array.new(5) { |i| NB.async { http.get(path: "/#{i}") } }.each(&:value)
        assert_equal 5, @server.accepted
        @server.hang_up
        assert_raises(Excon::Error::Socket) { http.get(path: "/first") }
        10.times { |i| own(->(path) { [http.get(path: path).body] }, "/#{i}") }
      end
    end
  end

  def test_calls_that_are_left_in_the_middle_and_never_end_are_collected
    http = Excon.new(@server.origin, persistent: true)
    NB.run do
      NB.timeout(LIMIT) do
        NB.async { 20.times { half_read(http) } }.wait
        GC.start
        sleep 0.001 until @server.open < 10 # a few may still be on a stack
      end
    end
  end

  # As one thread after another does.
  def test_the_next_fiber_uses_the_socket_of_the_last_one
    http = Excon.new(@server.origin, persistent: true)
    NB.run { 5.times { |i| NB.async { http.get(path: "/#{i}") }.wait } }
    assert_equal [1, 1], [@server.accepted, @server.open]
    http.reset
    Thread.pass until @server.open.zero?
  end

  def test_a_reset_leaves_the_answers_of_other_fibers_alone
    http = Excon.new(@server.origin, persistent: true)
    NB.run do
      NB.timeout(LIMIT) do
        held = NB.async { http.get(path: "/held") }
        sleep 0.001 until @server.open == 1
        http.get(path: "/other")
        http.reset
        sleep 0.001 until @server.open == 1
        assert_predicate held, :alive?
        held.cancel.wait
        sleep 0.001 until @server.open.zero?
      end
    end
  end

  def test_a_forked_child_has_sockets_of_its_own
    result = Subprocess.ruby(<<~RUBY)
      require "excon"
      http = Excon.new("#{@server.origin}", persistent: true)
      get = ->(path) { NB.run { http.get(path: path).body } }
      get.call("/parent")
      Process.wait(fork { print get.call("/child").size, " " })
      print get.call("/parent").size
    RUBY
    assert_equal "140 160", result.out, result.err
    assert_equal 2, @server.accepted
  end

  private

  # Own answers; then one that is cut in the middle, if there is a block; then own answers again.
  def use(get, index)
    3.times { |round| own(get, "/first#{index}-#{round}") }
    assert_raises(Timeout::Error) { yield proc { get["/held#{index}"] } } if block_given?
    3.times { |round| own(get, "/then#{index}-#{round}") }
  end

  def half_read(http)
    parts = Enumerator.new do |enum|
      http.get(path: "/held", response_block: ->(part, *) { enum << part })
    end
    parts.next
  end

  def own(get, path)
    assert_equal [TokenServer.body(path)], get[path].uniq
  end
end
