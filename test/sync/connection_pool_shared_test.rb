# frozen_string_literal: true

require_relative "support"
require "socket"

# One pool for several loops and for plain threads: a connection goes from one to the other, an
# answer only to who has asked.
class ConnectionPoolSharedTest < Minitest::Test
  include SyncSupport

  SIZE = 3
  VISITS = 15

  def setup
    super
    @server = TCPServer.new("127.0.0.1", 0)
    @threads = [Thread.new { serve }]
    @lock = Thread::Mutex.new
    @users = Hash.new(0).compare_by_identity
    @places = Hash.new { |places, connection| places[connection] = {} }.compare_by_identity
    @begun = Thread::Queue.new
    @most = 0
  end

  def teardown
    @pool.close
    @server.close
    @threads.each(&:join)
    super
  end

  def serve
    loop do
      socket = @server.accept
      @threads << Thread.new { echo(socket) }
    end
  rescue IOError
    nil # closed
  end

  def echo(socket)
    while (line = socket.gets)
      socket.write(line)
    end
  rescue SystemCallError
    nil # cut off in the middle of an answer
  ensure
    socket.close
  end

  # Fails where a connection is in two hands, or an answer is another's.
  def visit(word)
    @pool.with do |connection|
      @lock.synchronize do
        @most = [@most, @users[connection] += 1].max
        @places[connection][Thread.current] = true
      end
      connection.write("#{word}\n")
      sleep(0.0005)
      connection.gets(chomp: true)
    ensure
      @lock.synchronize { @users[connection] -= 1 }
    end
  end

  def visits(name) = Array.new(VISITS) { |i| visit("#{name} #{i}") == "#{name} #{i}" }

  def in_a_loop(name, &also)
    Thread.new do
      in_loop(SCHEDULERS.fetch(:neverblock)) do
        @begun.push(name)
        assert(settled { @begun.size == 2 }) # both loops are there
        tasks = Array.new(4) { |i| NB::Task.new { visits("#{name} #{i}") } }
        also&.call
        tasks.flat_map(&:value)
      end
    end
  end

  def start
    @pool = NB::ConnectionPool.new(size: SIZE, timeout: 60) { TCPSocket.new("127.0.0.1", @server.addr[1]) }
  end

  def assert_shared(answers)
    assert_equal [true], answers.flatten.uniq
    assert_equal 1, @most, "in two hands"
    assert_equal [0, 0], @pool.stats.values_at(:in_use, :waiting)
    assert_operator @places.each_value.map(&:size).max, :>, 1, "no connection has moved"
  end

  def test_two_loops_and_three_threads
    start
    parts = [in_a_loop("a"), in_a_loop("b")]
    parts += Array.new(3) { |i| Thread.new { visits("thread #{i}") } }
    assert_shared(parts.map(&:value))
    assert_operator @places.size, :<=, SIZE
  end

  def test_cancels_in_one_loop_leave_the_other_its_connections
    start
    cancels = lambda do
      20.times do |i|
        task = NB::Task.new { visits("cancelled #{i}") }
        sleep(i * 0.0002)
        task.cancel.wait
      end
    end
    assert_shared([in_a_loop("a", &cancels), in_a_loop("b")].map(&:value))
  end

  def test_a_reload_in_one_loop_closes_what_the_other_used
    start
    reloads = -> { 10.times { sleep(0.003) && @pool.reload } }
    assert_shared([in_a_loop("a", &reloads), in_a_loop("b")].map(&:value))
    assert_operator @places.size, :>, SIZE
  end
end
