# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require "neverblock"
require "mysql2"
require_relative "../support/clock"
require_relative "../support/certificates"
require_relative "../support/databases"
require_relative "../support/leaks"
require_relative "../support/proxies"
require_relative "../support/subprocess"
require_relative "../support/ticker"
require_relative "../support/timing"

# What goes wrong while mysql2 waits in the loop: timeouts and cancels inside the client library,
# one connection in two fibers, a killed server, garbage collection, and no loop at all.
class Mysql2FaultsTest < Minitest::Test
  include Clock

  # Each stops in another function of the library. The server does not answer in time.
  STOPS = {
    "connect" => ->(test) { Mysql2::Client.new(**test.options(port: test.silent)) },
    "TLS handshake" => ->(test) { Mysql2::Client.new(**test.tls(port: test.late)) },
    "query" => ->(test) { test.client.query("SELECT SLEEP(0.6)") },
    "async_result" => lambda do |test|
      test.client.query("SELECT SLEEP(0.6)", async: true)
      test.client.async_result
    end,
    "ping" => ->(test) { test.client(port: test.late).ping },
    "prepare" => ->(test) { test.client(port: test.late).prepare("SELECT 1") },
    "execute" => ->(test) { test.client.prepare("SELECT SLEEP(0.6)").execute },
    "stream" => lambda do |test|
      test.client.query("SELECT SLEEP(0.6) FROM seq_1_to_2", stream: true, cache_rows: false).each { nil }
    end,
    "download" => lambda do |test|
      test.client(port: test.late)
        .query("SELECT REPEAT('x', 200), SLEEP(IF(seq > 9999, 0.6, 0)) FROM seq_1_to_10000")
    end,
    "next_result" => lambda do |test|
      test.client(flags: Mysql2::Client::MULTI_STATEMENTS).query("SELECT 1; SELECT SLEEP(0.6)")
      test.client.next_result
    end,
    "upload" => ->(test) { test.client.query(test.large) },
    "upload with TLS" => ->(test) { test.client.query(test.large) }
  }.freeze
  # What comes before, in its own time.
  PREPARED = {
    "upload" => ->(test) { test.client && test.large && test.pause },
    "upload with TLS" => ->(test) { test.client(**test.tls) && test.large && test.pause }
  }.freeze
  # How it is stopped after a moment.
  WAYS = {
    "timeout" => ->(work) { Timeout.timeout(0.15) { work.call } },
    "NB.timeout" => ->(work) { NB.timeout(0.15, ArgumentError, "enough") { work.call } },
    "cancel" => lambda do |work|
      task = NB.async { work.call }
      sleep 0.15
      task.cancel
      task.value
    end
  }.freeze
  RAISED = { "timeout" => Timeout::Error, "NB.timeout" => ArgumentError,
             "cancel" => NB::TaskCancelledError }.freeze

  STOPS.each do |place, work|
    WAYS.each do |way, stop|
      next unless way == "timeout" || %w[connect execute stream query].include?(place)

      define_method("test_#{way} in #{place}") do
        run_in_loop do
          PREPARED[place]&.call(self)
          start = clock
          assert_raises(RAISED[way]) { stop.call(-> { work.call(self) }) }
          assert_in_time clock - start, 1.5
          assert_predicate @client, :closed? if @client
        end
        assert_nothing_left
      end
    end
  end

  STOPS.slice("execute", "query").each do |place, work|
    define_method("test_Fiber#kill in #{place}") do
      skip "before Ruby 3.3, fibers cannot be killed" unless Fiber.method_defined?(:kill)
      client
      thread = Thread.new do
        run_in_loop do
          fiber = Fiber.schedule { work.call(self) }
          sleep 0.15
          fiber.kill
          sleep 0.01 while fiber.alive?
          @client.closed?
        end
      end
      assert_equal true, thread.value # nil if it was killed
      assert_nothing_left
    end
  end

  def setup
    @fds = Leaks.fds
    database
    @fds = Leaks.fds
  end

  def teardown
    @client&.close
    assert_empty Leaks.between({ fds: @fds, threads: 99, children: [] },
                               { fds: Leaks.fds, threads: 0, children: [] })
  end

  def test_a_rescue_in_the_block_does_not_swallow_the_timeout
    run_in_loop do
      assert_raises(Timeout::Error) do
        Timeout.timeout(0.1) { client.ping && client.prepare("SELECT SLEEP(0.6)").execute rescue nil } # rubocop:disable Style/RescueModifier
      end
    end
  end

  def test_a_connection_in_two_fibers
    run_in_loop do
      execute = client.prepare("SELECT SLEEP(0.2) AS s")
      first = NB.async { execute.execute.to_a }
      { ping: [], query: ["SELECT 1"], prepare: ["SELECT 1"], select_db: ["mysql"] }.each do |name, arguments|
        error = assert_raises(Mysql2::Error) { client.public_send(name, *arguments) }
        assert_match(/\AThis connection is in use by: #<Fiber:/, error.message)
      end
      assert_equal [{ "s" => 0 }], first.value
      assert client.ping
    end
  end

  def test_a_query_in_two_fibers_raises_what_mysql2_raises
    run_in_loop do
      client
      first = NB.async { client.query("SELECT SLEEP(0.1) AS s").to_a }
      error = assert_raises(Mysql2::Error) { client.query("SELECT 1") }
      assert_match(/\AThis connection is in use by: #<Fiber:/, error.message)
      assert_equal [{ "s" => 0 }], first.value
    end
  end

  # Without its own tables the child would wait for the parent's fiber, which never goes on there.
  # From Ruby 4.0 on a forked child has no scheduler, until it runs a loop of its own.
  def test_a_forked_child_knows_no_calls_of_the_parent
    run_in_loop do
      execute = client.prepare("SELECT SLEEP(0.6) AS s")
      first = NB.async { execute.execute.to_a }
      child = fork do
        NB::Drivers::MysqlWait.evict(client)
        call = -> { NB::Drivers::MysqlWait.call(client, :talk) { |inside| inside } }
        exit!((Fiber.current_scheduler ? call.call : NB.run(&call)) ? 0 : 1)
      end
      ended = begin
        Timeout.timeout(20) { Process.wait2(child).last }
      rescue Timeout::Error
        Process.kill(:KILL, child)
        Process.wait2(child).last
      end
      assert_predicate ended, :success?
      assert_equal [{ "s" => 0 }], first.value
    end
  end

  def test_closed_by_another_fiber
    run_in_loop do
      statement = client.prepare("SELECT SLEEP(0.6)")
      { "execute" => -> { statement.execute }, "query" => -> { client.query("SELECT SLEEP(0.6)") } }
        .each_value do |work|
        waiting = NB.async { assert_raises(Mysql2::Error) { work.call } }
        client.close
        error = waiting.value
        assert_match(/lost connection|gone away/i, error.message)
        assert_predicate client, :closed?
        @client = nil
        client
      end
    end
  end

  # Its MYSQL is memory that nobody has written to. (`ping` looks there by itself, without a loop, too.)
  def test_a_client_that_was_never_initialized_is_refused_as_by_mysql2
    result = Subprocess.ruby(<<~RUBY)
      require "mysql2"
      words = lambda do
        client = Mysql2::Client.allocate
        client.instance_variable_set(:@query_options, {})
        closed = client.close
        calls = [-> { client.query("SELECT 1") }, -> { client.prepare("SELECT 1") }]
        [closed, *calls.map { |call| call.call rescue $!.message }]
      end
      puts [words.call, *NB.run { Array.new(20) { words.call } }].uniq.inspect
      puts NB.run { Array.new(20) { NB::Tidy.left_open?(Mysql2::Client.allocate) } }.uniq.inspect
    RUBY
    assert_equal [0, ""], [result.status.to_i, result.err]
    first, second = result.out.lines
    assert_equal 2, first.scan("MySQL client is not initialized").size, first
    assert_equal "[false]\n", second
  end

  def test_killed_and_restarted_in_mid_query
    run_in_loop do
      running = Array.new(20) do |i|
        NB.async do
          mine = connect
          i.even? ? mine.query("SELECT SLEEP(20)") : mine.prepare("SELECT SLEEP(20)").execute
        rescue Mysql2::Error => error
          error
        ensure
          mine&.close
        end
      end
      sleep 0.2
      database.restart(signal: :KILL)
      assert_equal [Mysql2::Error::ConnectionError], running.map { |task| task.value.class }.uniq
      assert connect.tap(&:ping).close.nil?
    end
  end

  def test_a_packet_that_is_too_large
    run_in_loop do
      client.query("SET GLOBAL max_allowed_packet = 1048576")
      strict = connect
      error = assert_raises(Mysql2::Error) { strict.query("SELECT '#{"x" * 2_000_000}'") }
      # The server answers and closes; which of both is seen first is not certain without a loop either.
      assert_match(/packet bigger than 'max_allowed_packet'|gone away|Lost connection/, error.message)
      strict.close
    ensure
      client.query("SET GLOBAL max_allowed_packet = 67108864")
    end
  end

  def test_long_results_and_statements_let_others_run
    [{}, tls].each do |options|
      mine = NB.run { connect(**options) }
      assert_others_run { assert_equal 50, mine.query("SELECT REPEAT('x', 1000000) FROM seq_1_to_50").count }
      sql = "SELECT LENGTH('#{"x" * 50_000_000}') AS l"
      # OpenSSL encrypts 16 MB in one go.
      Ticker.lateness { assert_equal [{ "l" => 50_000_000 }], mine.query(sql).to_a }
      mine.close
    end
  end

  def test_garbage_collection_beside_waits
    run_in_loop do
      done = false
      collecting = NB.async do
        until done
          GC.start
          GC.compact if GC.respond_to?(:compact)
          sleep 0.001
        end
      end
      10.times.map { NB.async { work_hard } }.each(&:value)
      done = true
      collecting.wait
    end
  end

  def test_without_a_loop_it_is_as_before
    [{}, tls].each do |options|
      mine = connect(**options)
      assert_equal [{ "a" => 1 }], mine.query("SELECT 1 AS a").to_a
      assert_equal [{ "a" => 2 }], mine.prepare("SELECT ? AS a").execute(2).to_a
      assert mine.ping
      NB.run { assert_equal [{ "a" => 3 }], mine.prepare("SELECT ? AS a").execute(3).to_a }
      assert mine.ping
      thread = Thread.new { mine.query("SELECT SLEEP(0.6)") }
      sleep 0.01 until thread.stop?
      sleep 0.2
      thread.report_on_exception = false
      thread.raise(ArgumentError, "enough")
      assert_raises(ArgumentError) { thread.value }
      assert_predicate mine, :closed?
    ensure
      mine&.close
    end
  end

  def test_tls_without_a_ca_file_is_opened_on_a_thread
    assert_others_run do
      together(10) { connect(ssl_mode: :required).tap { |mine| refute_nil mine.ssl_cipher }.close }
    end
  end

  def test_the_name_in_the_certificate_is_checked
    run_in_loop do
      good = connect(**tls(ssl_mode: :verify_identity, host: "127.0.0.1"))
      refute_nil good.ssl_cipher
      good.close
      # Another name for this host, which is not in the certificate.
      assert_raises(Mysql2::Error::ConnectionError) do
        connect(**tls(ssl_mode: :verify_identity, host: Socket.gethostname))
      end
    end
  end

  # What a client library without the hook gets.
  def test_on_threads
    script = <<~RUBY
      require "mysql2"
      options = #{options.inspect}
      driver = Struct.new(:on) { def on? = true; def in_loop? = !NB::Repairs.loop_here.nil?; def notice(text) = puts(text) }.new
      NB::Drivers::Mysql2.instance_variable_set(:@driver, driver)
      NB::Drivers::Mysql2.on_threads("it is Oracle's")
      NB.run do
        start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        10.times.map { NB.async {
          client = Mysql2::Client.new(**options)
          client.ping or abort "no ping"
          client.prepare("SELECT SLEEP(0.2)").execute
          client.close
        } }.each(&:value)
        puts Process.clock_gettime(Process::CLOCK_MONOTONIC) - start < 1.5
      end
    RUBY
    result = Subprocess.ruby(script, env: { "NB_DRIVERS" => "-mysql2" })
    assert_match(/\Aconnecting, ping .* on native threads.*it is Oracle's.*\ntrue\n\z/, result.out, result.err)
  end

  # It uses the connection until it has ended, so nobody else may.
  def test_a_timeout_on_threads_comes_when_the_call_has_ended
    script = <<~RUBY
      require "mysql2"
      driver = Struct.new(:on) { def on? = true; def in_loop? = !NB::Repairs.loop_here.nil?; def notice(text) = nil }.new
      NB::Drivers::Mysql2.instance_variable_set(:@driver, driver)
      NB::Drivers::Mysql2.on_threads("it is Oracle's")
      NB.run do
        client = Mysql2::Client.new(**#{options.inspect})
        statement = client.prepare("SELECT SLEEP(0.4)")
        begin
          NB.timeout(0.1) { statement.execute }
        rescue Timeout::Error
          2.times { |i| puts client.query("SELECT \#{i} AS i").to_a }
        end
      end
    RUBY
    result = Subprocess.ruby(script, env: { "NB_DRIVERS" => "-mysql2" })
    assert_equal Array.new(2) { |i| { "i" => i }.to_s }, result.out.lines(chomp: true), result.err
  end

  # --- what the table at the top uses ----------------------------------------------------------

  def client(**more) = @client ||= connect(**more)
  def large = @large ||= "SELECT '#{"x" * 40_000_000}'"
  def connect(**more) = Mysql2::Client.new(**options(**more))
  def options(**more) = { **database.options, **more }

  def tls(**more)
    path = File.join(database.folder, "ca.pem")
    File.write(path, Certificates.certificate.to_pem) unless File.exist?(path)
    options(ssl_mode: :required, sslca: path, **more)
  end

  def late = Proxies.late(database.port, 0.4)

  # Somebody who listens and says nothing.
  def silent
    @silent ||= TCPServer.new("127.0.0.1", 0)
    @silent.local_address.ip_port
  end

  # The server reads no more.
  def pause
    Process.kill(:STOP, database.server.pid)
    @paused = true
  end

  private

  def database = Databases.mariadb

  def run_in_loop(&block)
    NB.run { NB.timeout(20) { instance_exec(&block) } }
  ensure
    Process.kill(:CONT, database.server.pid) if @paused
    @silent&.close
  end

  def together(count, &block) = NB.map(0...count, concurrency: count, &block)

  # Nothing in the block blocks for 50 ms.
  def assert_others_run(&block) = assert_in_time(Ticker.lateness(&block), 0.05)

  def work_hard
    mine = connect
    statement = mine.prepare("SELECT ? AS a, SLEEP(0.002)")
    5.times do |i|
      assert_equal i, statement.execute(i).first["a"]
      assert_equal 20, mine.query("SELECT SLEEP(0.0005) FROM seq_1_to_20").count
      mine.prepare("SELECT 1").execute
    end
  ensure
    mine&.close
  end

  # No connection is left on the server.
  def assert_nothing_left
    @client&.close
    watch = connect
    deadline = clock + 8
    sleep 0.05 until (left = connections(watch)).empty? || clock > deadline
    assert_empty left
  ensure
    watch&.close
  end

  def connections(watch)
    watch.query("SHOW PROCESSLIST").reject { |row| row["Id"] == watch.thread_id }
  end
end
# rubocop:enable Layout/LineLength
