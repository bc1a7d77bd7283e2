# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/transparency"
require "trilogy"

# trilogy waits by itself: Ruby's sockets, and Ruby's waits in its C.
class TrilogyTest < Transparency
  library "trilogy", group: "Databases", gems: %w[trilogy], server: -> { Databases.mariadb },
          against: -> { "MariaDB #{`mariadbd --version`[/Ver (\d+\.\d+\.\d+)/, 1]}" }

  SLEEP = "SELECT SLEEP(0.1) AS s"

  waits "a query" do
    clients = together { connect }
    assert_equal [[[0]]], measure { |i| clients[i].query(SLEEP).rows }.uniq
  ensure
    close(clients)
  end

  waits "a second result (next_result)" do
    clients = together { connect(multi_statement: true) }
    values = measure do |i|
      clients[i].query("SELECT 1; #{SLEEP}")
      clients[i].next_result.rows
    end
    assert_equal [[[0]]], values.uniq
  ensure
    close(clients)
  end

  waits "ping" do
    clients = together { connect(port: late) }
    assert_equal [true], measure { |i| clients[i].ping }.uniq
  ensure
    close(clients)
  end

  waits "change_db" do
    clients = together { connect(port: late) }
    assert_equal [true], measure { |i| clients[i].change_db("mysql") }.uniq
  ensure
    close(clients)
  end

  waits "connect" do
    close(measure(delay: 0.2) { connect(port: late) }) # the greeting, the password
  end

  waits "connect with TLS" do
    close(measure(count: 25, delay: 0.3) { connect(port: late, **tls) })
  end

  waits "connect by a host name that resolves late" do
    name = name_late
    close(measure(delay: 0.3) { connect(host: name) })
  end

  waits "a query with TLS" do
    clients = together { connect(**tls) }
    assert_equal [[[0]]], measure { |i| clients[i].query(SLEEP).rows }.uniq
  ensure
    close(clients)
  end

  fails("wrong password") { connect(password: "wrong") }
  fails("refused") { connect(port: Proxies.nobody) }
  fails("unknown host") { connect(host: "unknown.invalid") }
  fails("unknown database") { connect(database: "none") }
  fails("wrong SQL") { with_client { |client| client.query("SELEKT 1") } }
  fails("closed") { connect.tap(&:close).query("SELECT 1") }
  fails("read timeout") { with_client(read_timeout: 0.2) { |client| client.query("SELECT SLEEP(2)") } }

  fails("reset in mid-result") do
    with_client(port: Proxies.cut(server.port, after: 5_000)) do |client|
      client.query("SELECT REPEAT('x', 100000)")
    end
  end

  fails("server restarted") do
    with_client do |client|
      server.restart
      client.query("SELECT 1")
    end
  end

  def test_a_timeout_in_mid_query_closes_it
    NB.run do
      client = connect
      assert_raises(Timeout::Error) { Timeout.timeout(0.1) { client.query("SELECT SLEEP(1)") } }
      assert_raises(Trilogy::Error, SystemCallError, IOError) { client.query("SELECT 1") }
    ensure
      client&.close
    end
  end

  private

  def connect(**options) = Trilogy.new(**server.options, **options)

  def with_client(**options)
    client = connect(**options)
    yield client
  ensure
    client&.close
  end

  def late = Proxies.late(server.port)
  def close(clients) = clients&.each(&:close)

  # With a CA file of its own: otherwise OpenSSL reads the system's, 20 ms on the CPU.
  def tls
    path = File.join(server.folder, "ca.pem")
    File.write(path, Certificates.certificate.to_pem) unless File.exist?(path)
    { ssl: true, ssl_mode: Trilogy::SSL_VERIFY_CA, ssl_ca: path }
  end
end
# rubocop:enable Layout/LineLength
