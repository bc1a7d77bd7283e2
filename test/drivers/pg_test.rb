# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/transparency"
require "pg"

# pg waits by itself: libpq's asynchronous functions, and Ruby's waits.
class PGTest < Transparency
  library "pg", group: "Databases", gems: %w[pg], server: -> { Databases.postgresql },
          against: -> { "PostgreSQL #{PG.connect(Databases.postgresql.url) { |c| c.parameter_status("server_version")[/\S+/] }}" }

  waits "exec" do
    connections = together { connect }
    assert_equal ["1"], measure { |i| connections[i].exec("SELECT 1 FROM pg_sleep(0.1)").getvalue(0, 0) }.uniq
  ensure
    close(connections)
  end

  waits "exec_params" do
    connections = together { connect }
    values = measure { |i| connections[i].exec_params("SELECT $1::int FROM pg_sleep(0.1)", [i]).getvalue(0, 0) }
    assert_equal (0..49).map(&:to_s), values
  ensure
    close(connections)
  end

  waits "prepare" do
    connections = together { connect(port: late) }
    assert_equal [PG::PGRES_COMMAND_OK], measure { |i| connections[i].prepare("one", "SELECT 1").result_status }.uniq
  ensure
    close(connections)
  end

  waits "exec_prepared" do
    connections = together { connect.tap { |c| c.prepare("sleep", "SELECT 1 FROM pg_sleep($1)") } }
    assert_equal ["1"], measure { |i| connections[i].exec_prepared("sleep", [0.1]).getvalue(0, 0) }.uniq
  ensure
    close(connections)
  end

  waits "rows in single row mode" do
    connections = together { connect }
    values = measure do |i|
      connections[i].send_query("SELECT n, pg_sleep(0.01) FROM generate_series(1, 10) n")
      connections[i].set_single_row_mode
      connections[i].get_result.stream_each.count.tap { connections[i].get_last_result }
    end
    assert_equal [10], values.uniq
  ensure
    close(connections)
  end

  waits "COPY TO" do
    connections = together { connect }
    sql = "COPY (SELECT n, pg_sleep(0.01) FROM generate_series(1, 10) n) TO STDOUT"
    values = measure do |i|
      rows = 0
      connections[i].copy_data(sql) { rows += 1 while connections[i].get_copy_data }
      rows
    end
    assert_equal [10], values.uniq
  ensure
    close(connections)
  end

  waits "COPY FROM" do
    connections = together { connect(port: late).tap { |c| c.exec("CREATE TEMP TABLE t (a int)") } }
    measure(delay: 0.2) do |i| # that it may begin; that it has ended
      connections[i].copy_data("COPY t FROM STDIN") { 100.times { |n| connections[i].put_copy_data("#{n}\n") } }
    end
    assert_equal ["100"], together { |i| connections[i].exec("SELECT count(*) FROM t").getvalue(0, 0) }.uniq
  ensure
    close(connections)
  end

  waits "LISTEN, NOTIFY" do
    connections = together { connect.tap { |c| c.exec("LISTEN news") } }
    speaker = connect
    heard = measure do |i|
      NB.async { sleep(0.1) && speaker.exec("NOTIFY news, 'hello'") } if i.zero?
      heard(connections[i])
    end
    assert_equal ["hello"], heard.uniq
  ensure
    close(connections)
    speaker&.close
  end

  waits "cancel" do
    connections = together(10) { connect }
    values = measure(count: 10) do |i|
      connections[i].send_query("SELECT pg_sleep(5)")
      sleep 0.08
      connections[i].cancel
      assert_raises(PG::QueryCanceled) { connections[i].get_last_result }.class
    end
    assert_equal [PG::QueryCanceled], values.uniq
  ensure
    close(connections)
  end

  waits "a pipeline" do
    connections = together { connect.tap(&:enter_pipeline_mode) }
    values = measure do |i|
      2.times { connections[i].send_query_params("SELECT 1 FROM pg_sleep(0.05)", []) }
      connections[i].pipeline_sync
      2.times.map { connections[i].get_result.getvalue(0, 0).tap { connections[i].get_result } }
    end
    assert_equal [%w[1 1]], values.uniq
  ensure
    close(connections)
  end

  waits "connect" do
    close(measure(count: 10) { connect(port: late) })
  end

  waits "connect with a password (SCRAM)" do
    close(measure(count: 2, delay: 0.4) { connect(port: late, **person) })
  end

  waits "connect with TLS" do
    # Yes to TLS; the server's curve is not the client's first; its hello; ready.
    connections = measure(count: 10, delay: 0.4) { connect(port: late, sslmode: "require") }
    assert_equal [true], connections.map(&:ssl_in_use?).uniq
  ensure
    close(connections)
  end

  waits "connect by a host name that resolves late" do
    name = name_late
    close(measure(count: 10, delay: 0.3) { connect(host: name) })
  end

  waits "exec with TLS" do
    connections = together { connect(sslmode: "require") }
    assert_equal ["1"], measure { |i| connections[i].exec("SELECT 1 FROM pg_sleep(0.1)").getvalue(0, 0) }.uniq
  ensure
    close(connections)
  end

  waits "reset" do
    connections = together(10) { connect(port: late) }
    measure(count: 10) { |i| connections[i].reset }
    assert_equal ["1"], together(10) { |i| connections[i].exec("SELECT 1").getvalue(0, 0) }.uniq
  ensure
    close(connections)
  end

  fails("wrong password") { connect(**person, password: "wrong") }
  fails("refused") { connect(port: Proxies.nobody) }
  fails("unknown host") { connect(host: "unknown.invalid") }
  fails("unknown database") { connect(dbname: "none") }
  fails("wrong SQL") { with_connection { |connection| connection.exec("SELEKT 1") } }
  fails("closed") { connect.tap(&:close).exec("SELECT 1") }

  fails("reset in mid-result") do
    with_connection(port: Proxies.cut(server.port, after: 5_000)) do |connection|
      connection.exec("SELECT repeat('x', 100000)")
    end
  end

  fails("server restarted") do
    with_connection do |connection|
      restart
      connection.exec("SELECT 1")
    end
  end

  fails("killed in mid-query") do
    with_connection { |connection| connection.exec("SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(1)") }
  end

  fails("statement timeout") do
    with_connection do |connection|
      connection.exec("SET statement_timeout = 100")
      connection.exec("SELECT pg_sleep(2)")
    end
  end

  # libpq says it for two queries at once, from wherever.
  fails("a query while another runs") do
    with_connection do |connection|
      connection.send_query("SELECT pg_sleep(0.2)")
      connection.send_query("SELECT 1")
    end
  end

  def test_the_server_is_restarted_under_waiting_queries
    NB.run do
      running = Array.new(20) do
        NB.async do
          with_connection { |connection| connection.exec("SELECT pg_sleep(20)") }
        rescue PG::Error => error
          error
        end
      end
      sleep 0.2
      restart
      running.each { |task| assert_kind_of PG::Error, task.value }
      with_connection { |connection| assert_equal "1", connection.exec("SELECT 1").getvalue(0, 0) }
    end
  end

  def test_a_timeout_in_mid_query_leaves_it_usable_after_a_cancel
    NB.run do
      with_connection do |connection|
        assert_raises(Timeout::Error) { Timeout.timeout(0.1) { connection.exec("SELECT pg_sleep(5)") } }
        assert_equal "1", connection.tap(&:cancel).tap(&:discard_results).exec("SELECT 1").getvalue(0, 0)
      end
    end
  end

  # Between a statement and its undoing, which a pool cannot know of.
  LEFT_BEHIND = {
    "a setting" => ->(connection) { connection.exec("SET search_path = nowhere") },
    "a lock" => ->(connection) { connection.exec("SELECT pg_advisory_lock(4711)") },
    "a temporary table" => ->(connection) { connection.exec("CREATE TEMPORARY TABLE left_behind (n int)") },
    "a channel" => ->(connection) { connection.exec("LISTEN left_behind") },
    "pipeline mode" => lambda do |connection|
      connection.enter_pipeline_mode
      connection.send_query_params("SELECT 1", [])
      connection.pipeline_sync
    end
  }.freeze

  LEFT_BEHIND.each do |name, leave|
    define_method("test_the_next_of_a_pool_does_not_find_#{name}".tr(" ", "_")) do
      pool = NB::ConnectionPool.new(size: 1) { connect }
      NB.run do
        id = pool.with(&:backend_pid)
        assert_raises(Timeout::Error) { NB.timeout(0.05) { pool.with { |connection| leave.call(connection) && sleep } } }
        pool.with do |connection|
          refute_equal id, connection.backend_pid
          assert_equal "1", connection.exec("SELECT 1").getvalue(0, 0)
        end
      end
    ensure
      pool.close
    end
  end

  private

  # Comes in without a password: the check of one costs both sides milliseconds on the CPU.
  def connect(**options)
    PG.connect(host: server.host, port: server.port, user: "postgres", dbname: server.database,
               sslmode: "disable", **options)
  end

  def person = { user: server.user, password: server.password }

  # TERM would wait for the clients.
  def restart
    server.restart
    connect.close
  rescue PG::ConnectionBad => error
    raise unless error.message.match?(/starting up|not yet accepting/)

    sleep 0.02
    retry
  end

  def with_connection(**options)
    connection = connect(**options)
    yield connection
  ensure
    connection&.close unless connection&.finished?
  end

  def heard(connection)
    message = nil
    connection.wait_for_notify(5) { |_, _, text| message = text }
    message
  end

  def late = Proxies.late(server.port)
  def close(connections) = connections&.each(&:close)
end
# rubocop:enable Layout/LineLength
