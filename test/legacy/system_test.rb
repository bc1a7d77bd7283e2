# frozen_string_literal: true

require "minitest/autorun"
require "net/http"
require "neverblock"
require "neverblock/cli/delay_server"
require "socket"
require "timeout"
require_relative "../support/clock"
require_relative "../support/timing"

# What the later specs (2010 to 2012) assert of the rest: sleep, system, Timeout, locks and sockets,
# in fibers of the pool.
class LegacySystemTest < Minitest::Test
  include Clock

  def setup = @pool = NB::Pool::FiberPool.new(10)

  def test_sleep_takes_its_time
    assert_between(0.1, 0.5, seconds { inside { sleep 0.1 } })
    assert_between(0.1, 0.5, seconds { inside { NB.sleep 0.1 } })
  end

  def test_backticks_and_system_say_what_they_say_outside
    outside = [`echo hello`, system("true"), system("false"), system("/no/such/program")]
    assert_equal ["hello\n", true, false, nil], outside
    within = inside { [`echo hello`, *%w[true false /no/such/program].map { |name| system(name) }] }
    assert_equal outside, within
    others = 0
    inside(-> { 20.times { sleep(0.005) && others += 1 } }) { system("sleep 0.05") }
    assert_equal 20, others
  end

  def test_a_timeout_fires_in_time_or_not_at_all
    took = seconds do
      inside { assert_raises(Timeout::Error) { Timeout.timeout(0.1) { sleep 5 } } }
    end
    assert_between 0.1, 1, took
    inside do
      assert_equal :value, Timeout.timeout(1) { sleep(0.01) && :value }
      assert_equal :value, Timeout.timeout(0) { sleep(0.01) && :value }
    end
  end

  def test_nested_timeouts_fire_the_one_that_is_due
    inner = Class.new(StandardError)
    outer = Class.new(StandardError)
    inside do
      { inner => [5, 0.02], outer => [0.02, 5] }.each do |error, (long, short)|
        assert_raises(error) do
          Timeout.timeout(long, outer) { Timeout.timeout(short, inner) { sleep 5 } }
        end
      end
      assert_raises(outer) do
        Timeout.timeout(0.5, outer) do
          assert_raises(inner) { Timeout.timeout(0.02, inner) { sleep 5 } }
          sleep 5
        end
      end
    end
  end

  def test_a_timeout_for_a_read_that_nobody_answers
    reader, = pipe = IO.pipe
    inside { assert_raises(Timeout::Error) { Timeout.timeout(0.02) { reader.read(1) } } }
  ensure
    pipe.each(&:close)
  end

  def test_a_lock_may_be_held_across_waits
    mutex = Mutex.new
    order = []
    NB.run do
      5.times do |i|
        @pool.spawn do
          mutex.synchronize do
            order << i
            sleep 0.005
            order << i
          end
        end
      end
    end
    assert_equal [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], order
    inside do
      assert_raises(ThreadError) { mutex.synchronize { mutex.lock } }
      assert_raises(RuntimeError) { mutex.synchronize { sleep(0.001) && raise("no") } }
      refute_predicate mutex, :locked?
    end
  end

  def test_many_sockets_and_requests_at_once
    server = NB::DelayServer.new(delay: 0.05)
    serving = Thread.new { server.run }
    answers = []
    pool = NB::Pool::FiberPool.new(1000)
    took = seconds do
      NB.run do
        100.times { pool.spawn { answers << get_by_hand(server.port) } }
        100.times { pool.spawn { answers << Net::HTTP.get("127.0.0.1", "/", server.port) } }
      end
    end
    assert_equal [200, ["done"]], [answers.size, answers.uniq]
    assert_in_time took, 2
  ensure
    server.stop
    serving.join
  end

  def test_a_pool_of_ten_thousand
    pool = NB::Pool::FiberPool.new(10_000)
    woken = 0
    NB.run { 10_000.times { pool.spawn { sleep(0.2) && woken += 1 } } }
    assert_equal 10_000, woken
  end

  private

  # The block in a fiber of the pool, beside another.
  def inside(other = -> {})
    value = error = nil
    NB.run do
      @pool.spawn(&other)
      @pool.spawn do
        value = yield
      rescue Minitest::Assertion, StandardError => e
        error = e
      end
    end
    error ? raise(error) : value
  end

  def get_by_hand(port)
    TCPSocket.open("127.0.0.1", port) do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
      socket.read[/\r\n\r\n(.*)/, 1]
    end
  end
end
