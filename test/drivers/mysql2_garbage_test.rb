# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "mysql2"
require_relative "../support/databases"
require_relative "../support/subprocess"
require_relative "../support/ticker"

# What of mysql2 is left to the garbage collector: it neither waits for the server nor reads another
# fiber's answer away, and nothing stays on the server.
class Mysql2GarbageTest < Minitest::Test
  # In a process of its own: where the garbage collector waits for the server, it does so for ever.
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
      GC.start
      assert_operator clock - start, :<, 0.2
      assert client.ping
      assert_operator clock - start, :>, 0.2
      assert_equal [{ "a" => 1 }], client.query("SELECT 1 AS a").to_a
    end
    assert_operator late, :<, 0.2
  ensure
    client&.close
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
    assert_operator clock - start, :<, 0.5
    assert_alone
  end

  private

  def options = Databases.mariadb.options
  def connect = Mysql2::Client.new(**options)
  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

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
