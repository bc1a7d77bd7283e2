# frozen_string_literal: true

require "minitest/autorun"
require "mqtt"
require "neverblock"
require "socket"
require "stomp"

# Clients of message brokers read in a thread of their own, and raise what goes wrong in the thread
# that has connected: in a loop in the fiber that has.
class BrokerErrorsTest < Minitest::Test
  LIMIT = 60
  # What the broker says when a client has connected, and what ends that; a client; a wait that
  # nothing ends but an error; the error.
  CLIENTS = {
    "mqtt" => ["\x20\x02\0\0".b, "", MQTT::ProtocolException,
               ->(port) { MQTT::Client.connect("127.0.0.1", port) }],
    "stomp" => ["CONNECTED\nversion:1.0\n\n\0", "ERROR\nmessage:no\n\nno\0",
                Stomp::Error::BrokerException,
                ->(port) { Stomp::Client.new("", "", "127.0.0.1", port, false) }]
  }.freeze

  def setup
    @report = Thread.report_on_exception
    Thread.report_on_exception = false # stomp's own thread ends by the error
    @server = TCPServer.new("127.0.0.1", 0)
    @port = @server.local_address.ip_port
    @go = Thread::Queue.new
  end

  def teardown
    @go.close
    @broker.kill.join
    @server.close
    Thread.report_on_exception = @report
  end

  # Answers each client, and then, once per word in @go, ends the connection of the oldest.
  def serve(hello, bye)
    @broker = Thread.new do
      loop do
        client = @server.accept
        client.readpartial(1000)
        client.write(hello)
        Thread.new { @go.pop && client.write(bye) && client.shutdown(:WR) }
      end
    end
  end

  def outcome(type)
    yield
    sleep
  rescue type
    :raised
  end

  CLIENTS.each do |name, (hello, bye, type, connect)|
    # It asks IO#ready?, which is not in the io-wait of Ruby 4.0.
    next if name == "stomp" && !IO.method_defined?(:ready?)

    define_method("test_#{name}_raises_in_the_fiber_that_has_connected") do
      serve(hello, bye)
      others = NB.run do
        NB.timeout(LIMIT) do
          mine = NB.async { outcome(type) { connect.call(@port) } }
          others = Array.new(3) { NB.async { mine.wait && :went_on } }
          sleep 0.001 until @go.num_waiting == 1
          @go << true
          assert_equal :raised, mine.value
          others.map(&:value)
        end
      end
      assert_equal [:went_on] * 3, others
    end

    define_method("test_#{name}_raises_in_the_block_of_the_loop_that_has_connected") do
      serve(hello, bye)
      assert_equal :raised, NB.run { outcome(type) { connect.call(@port) && (@go << true) } }
    end

    define_method("test_#{name}_raises_nowhere_once_the_work_of_the_fiber_has_ended") do
      serve(hello, bye)
      NB.run do
        NB.timeout(LIMIT) do
          pool = NB::FiberPool.new(1)
          done = Thread::Queue.new
          pool.spawn { done << connect.call(@port) }
          client = done.pop
          next_work = NB.async { done.pop }
          pool.spawn { 50.times { sleep 0.002 } && (done << :whole) }
          @go << true
          assert_equal :whole, next_work.value
          assert client
        end
      end
    end

    define_method("test_#{name}_raises_in_a_thread_as_ever") do
      serve(hello, bye)
      thread = Thread.new { outcome(type) { connect.call(@port) && (@go << true) } }
      assert_equal :raised, thread.join(LIMIT)&.value
    end
  end
end
