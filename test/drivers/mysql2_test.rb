# frozen_string_literal: true

require_relative "../support/transparency"
require "mysql2"

# mysql2 with MariaDB's client library, which waits in the loop wherever it would have polled.
class Mysql2Test < Transparency
  library "mysql2", group: "Databases", gems: %w[mysql2], server: -> { Databases.mariadb },
          against: -> { "MariaDB #{`mariadbd --version`[/Ver (\d+\.\d+\.\d+)/, 1]}, libmariadb " \
                        "#{Mysql2::Client.info[:version]}" },
          cure: "MariaDB's library waits in the loop, by MARIADB_OPT_IO_WAIT"

  SLEEP = "SELECT SLEEP(0.1) AS s"

  waits "a query" do
    clients = together { connect }
    assert_equal [[{ "s" => 0 }]], measure { |i| clients[i].query(SLEEP).to_a }.uniq
  ensure
    close(clients)
  end

  waits "an async query" do
    clients = together { connect }
    values = measure do |i|
      clients[i].query(SLEEP, async: true)
      clients[i].async_result.to_a
    end
    assert_equal [[{ "s" => 0 }]], values.uniq
  ensure
    close(clients)
  end

  waits "prepare" do
    clients = together { connect(port: late) }
    assert_equal [1], measure { |i| clients[i].prepare("SELECT ?").param_count }.uniq
  ensure
    close(clients)
  end

  waits "execute a prepared statement" do
    statements = together { connect.prepare("SELECT SLEEP(?) AS s") }
    assert_equal [[{ "s" => 0 }]], measure { |i| statements[i].execute(0.1).to_a }.uniq
  ensure
    statements&.each { |statement| client_of(statement).close }
  end

  waits "rows with stream: true" do
    clients = together { connect }
    sql = "SELECT seq, SLEEP(0.01) FROM seq_1_to_10"
    values = measure { |i| count(clients[i].query(sql, stream: true, cache_rows: false)) }
    assert_equal [10], values.uniq
  ensure
    close(clients)
  end

  waits "rows of a prepared statement with stream: true" do
    clients = together { connect(port: late) }
    statements = together { |i| clients[i].prepare("SELECT seq FROM seq_1_to_1") }
    results = together { |i| statements[i].execute(stream: true, cache_rows: false) }
    # The row; that it was the last.
    assert_equal [1], measure(delay: 0.2) { |i| count(results[i]) }.uniq
  ensure
    close(clients)
  end

  waits "a second result (next_result, store_result)" do
    clients = together { connect(flags: Mysql2::Client::MULTI_STATEMENTS) }
    values = measure do |i|
      clients[i].query("SELECT 1; #{SLEEP}")
      assert clients[i].next_result
      clients[i].store_result.to_a
    end
    assert_equal [[{ "s" => 0 }]], values.uniq
  ensure
    close(clients)
  end

  waits "ping" do
    clients = together { connect(port: late) }
    assert_equal [true], measure { |i| clients[i].ping }.uniq
  ensure
    close(clients)
  end

  waits "select_db" do
    clients = together { connect(port: late) }
    assert_equal ["mysql"], measure { |i| clients[i].select_db("mysql") }.uniq
  ensure
    close(clients)
  end

  waits "connect" do
    close(measure(delay: 0.2) { connect(port: late) }) # the greeting, the password
  end

  waits "connect with TLS" do
    # The greeting, TLS, the password. Each computes for 2 ms, and so does the server.
    clients = measure(count: 25, delay: 0.3) { connect(port: late, **tls) }
    refute_includes clients.map(&:ssl_cipher), nil
  ensure
    close(clients)
  end

  waits "connect by a host name that resolves late" do
    name = name_late
    close(measure(delay: 0.3) { connect(host: name) })
  end

  waits "a query with TLS" do
    clients = together { connect(**tls) }
    assert_equal [[{ "s" => 0 }]], measure { |i| clients[i].query(SLEEP).to_a }.uniq
  ensure
    close(clients)
  end

  waits "a prepared statement with TLS" do
    clients = together { connect(**tls) }
    values = measure { |i| clients[i].prepare("SELECT SLEEP(?) AS s").execute(0.1).to_a }
    assert_equal [[{ "s" => 0 }]], values.uniq
  ensure
    close(clients)
  end

  waits "reconnect" do
    clients = together { connect(port: late, reconnect: true) }
    together { |i| assert_raises(Mysql2::Error) { clients[i].query("KILL CONNECTION_ID()") } }
    # Lost; the greeting, the password, the character set; ping.
    assert_equal [true], measure(delay: 0.4) { |i| clients[i].ping }.uniq
  ensure
    close(clients)
  end

  fails("wrong password") { connect(password: "wrong") }
  fails("refused") { connect(port: Proxies.nobody) }
  fails("unknown host") { connect(host: "unknown.invalid") }
  fails("refused by name") { connect(host: "localhost.test", port: Proxies.nobody) }
  fails("unknown database") { connect(database: "none") }
  fails("wrong CA") { connect(**tls, sslca: "/etc/ssl/certs/ca-certificates.crt") }

  fails("wrong SQL") { with_client { |client| client.query("SELEKT 1") } }
  fails("wrong SQL in prepare") { with_client { |client| client.prepare("SELEKT 1") } }
  fails("closed") { connect.tap(&:close).query("SELECT 1") }

  fails("reset in mid-result") do
    with_client(port: Proxies.cut(server.port, after: 5_000)) do |client|
      client.query("SELECT REPEAT('x', 100000)")
    end
  end

  fails("reset in mid-result of a prepared statement") do
    with_client(port: Proxies.cut(server.port, after: 5_000)) do |client|
      client.prepare("SELECT REPEAT('x', 100000)").execute
    end
  end

  fails("server restarted") do
    with_client do |client|
      server.restart
      client.query("SELECT 1")
    end
  end

  fails("read timeout") do
    with_client(read_timeout: 1) { |client| client.query("SELECT SLEEP(5)") }
  end

  fails("read timeout of a prepared statement") do
    with_client(read_timeout: 1) { |client| client.prepare("SELECT SLEEP(5)").execute }
  end

  fails("read timeout with TLS") do
    with_client(read_timeout: 1, **tls) { |client| client.query("SELECT SLEEP(5)") }
  end

  private

  def connect(**options) = Mysql2::Client.new(**server.options, **options)

  def with_client(**options)
    client = connect(**options)
    yield client
  ensure
    client&.close
  end

  def late = Proxies.late(server.port)
  def close(clients) = clients&.each(&:close)

  # Without a block, #each yields nothing.
  def count(result)
    rows = 0
    result.each { rows += 1 }
    rows
  end

  def client_of(statement) = statement.instance_variable_get(:@neverblock_client)

  def tls
    path = File.join(server.folder, "ca.pem")
    File.write(path, Certificates.certificate.to_pem) unless File.exist?(path)
    { ssl_mode: :required, sslca: path }
  end
end
