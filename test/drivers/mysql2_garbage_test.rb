# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "mysql2"
require_relative "../support/clock"
require_relative "../support/databases"
require_relative "../support/subprocess"
require_relative "../support/ticker"
require_relative "../support/timing"

# What of mysql2 is left to the garbage collector: it neither waits for the server nor reads another
# fiber's answer away, and nothing stays on the server.
class Mysql2GarbageTest < Minitest::Test
  include Clock

  # In a process of its own: where the garbage collector waits for the server, it does so forever.
  def test_statements
    result = Subprocess.ruby(<<~RUBY, limit: 40)
      require "mysql2"
      NB.run do
        clients = Array.new(8) { Mysql2::Client.new(**#{options.inspect}) }
        done = false
        collecting = NB.async { (GC.start; sleep 0.002) until done }
        NB.map(clients, concurrency: 8) do |client|
          40.times do |i|
            NB.async do # in a fiber of its own, whose stack refers to them no more
              client.prepare("SELECT ? AS a").execute(i).first["a"] == i or abort "statement"
              client.prepare("SELECT nothing") rescue nil if i % 10 == 0
            end.wait
            rows = client.query("SELECT \#{i} AS a, SLEEP(0.002), REPEAT('x', 20000) FROM seq_1_to_8")
            rows.map { |row| row["a"] } == [i] * 8 or abort "query"
          end
        end
        done = true
        collecting.wait
        GC.start
        puts clients.all?(&:ping)
        puts clients[0].query("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'").first["Value"]
      end
    RUBY
    assert_match(/\Atrue\n\d+\n\z/, result.out, result.err)
    assert_operator result.out.lines.last.to_i, :<, 80 # of 320
  end

  # The rest of the result is read by the next call, and others run meanwhile.
  def test_a_streamed_result
    sql = "SELECT seq, SLEEP(0.01), REPEAT('x', 20000) FROM seq_1_to_40"
    client = NB.run { connect }
    late = Ticker.lateness do
      NB.async { client.query(sql, stream: true, cache_rows: false).each { break } }.wait
      NB.async { nil }.wait
      start = clock
      assert_in_time Ticker.around { GC.start }.still, 0.2
      assert client.ping
      assert_operator clock - start, :>, 0.2
      assert_equal [{ "a" => 1 }], client.query("SELECT 1 AS a").to_a
    end
    assert_in_time late, 0.2
  ensure
    client&.close
  end

  # Fibers, clients, statements and results are what the cure's tables are made of.
  def test_while_all_objects_move
    assert_survives(<<~RUBY, "GC.verify_compaction_references(toward: :empty, **grown)")
      grown = RUBY_VERSION >= "3.2" ? { expand_heap: true } : { double_heap: true }
    RUBY
  end

  def test_while_each_allocation_collects
    assert_survives("", "GC.start(full_mark: false)", during: "GC.stress = i == 2")
  end

  # It is freed in the middle of `each`, with its stack; so is an Enumerator's. A thread's own fiber
  # may get its place.
  def test_a_fiber_that_is_left_in_the_middle_of_a_stream
    result = Subprocess.ruby(<<~RUBY, limit: 40)
      require "mysql2"
      def connect = Mysql2::Client.new(**#{options.inspect})
      def place(fiber) = fiber.inspect[/0x\\h+/]
      def use(client) = client.prepare("SELECT SLEEP(0.01)").execute.to_a.size
      NB.run do
        client = connect.tap(&:ping)
        left = Array.new(15) do
          clients = Array.new(20) { connect }
          fibers = clients.map do |one|
            Fiber.new do
              one.query("SELECT 1 UNION SELECT 2", stream: true, cache_rows: false)
                 .each { |row| Fiber.yield(row) }
            end
          end
          fibers.each(&:resume).map { |fiber| place(fiber) }.tap do
            fibers.clear
            GC.start
            clients.each(&:close)
          end
        end
        left = left.flatten.to_h { |place| [place, true] }
        values = []
        3000.times do
          break if values.size == 5
          Thread.new { values << use(client) if left[place(Fiber.current)] }.join
        end
        p values.uniq - [1]
      end
    RUBY
    assert_equal "[]\n", result.out, result.err
  end

  # Nobody reads the rest, as nobody needs the connection.
  def test_a_client_with_statements_and_streamed_results
    NB.run do
      NB.map(0...20, concurrency: 20) do
        mine = connect
        mine.prepare("SELECT 1").execute
        mine.query("SELECT SLEEP(0.1), REPEAT('x', 20000) FROM seq_1_to_9",
                   stream: true, cache_rows: false)
        nil
      end
    end
    start = clock
    GC.start
    assert_in_time clock - start, 0.5
    assert_alone
  end

  private

  # Every kind of call, and timeouts, while another fiber does so.
  def assert_survives(before, collect, during: "")
    result = Subprocess.ruby(<<~RUBY, limit: 60)
      require "mysql2"
      #{before}
      NB.run do
        done = false
        collecting = NB.async { (#{collect}; sleep 0.03) until done }
        values = NB.map(0...4, concurrency: 4) do |number|
          client = Mysql2::Client.new(**#{options.inspect})
          4.times do |i|
            #{during}
            client.prepare("SELECT ? AS a, SLEEP(0.001)").execute(i).first["a"] == i or abort "statement"
            client.query("SELECT seq, SLEEP(0.001) FROM seq_1_to_3", stream: true, cache_rows: false)
              .map { |row| row["seq"] } == [1, 2, 3] or abort "stream"
          ensure
            GC.stress = false
          end
          begin
            Timeout.timeout(0.02) { client.query("SELECT SLEEP(5)") }
            abort "no timeout"
          rescue Timeout::Error
            client = Mysql2::Client.new(**#{options.inspect})
          end
          client.query("SELECT #\{number} AS n").first["n"]
        ensure
          client&.close
        end
        done = true
        collecting.wait
        p values
      end
    RUBY
    assert_equal "[0, 1, 2, 3]\n", result.out, result.err
  end

  def options = Databases.mariadb.options
  def connect = Mysql2::Client.new(**options)

  # No other connection is left on the server.
  def assert_alone
    watch = connect
    deadline = clock + 8
    sleep 0.05 until (count = watch.query("SHOW PROCESSLIST").count) == 1 || clock > deadline
    assert_equal 1, count
  ensure
    watch&.close
  end
end
