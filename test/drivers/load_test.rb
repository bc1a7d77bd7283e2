# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require "neverblock"
require "connection_pool"
require "pg"
require "mysql2"
require "trilogy"
require_relative "../support/clock"
require_relative "../support/databases"
require_relative "../support/leaks"
require_relative "../support/timing"

# 1,000 fibers over 12 connections, with every driver and by both pools: everybody gets a turn, and
# whatever interrupts a fiber in the middle of a query or a transaction, the connection that it had is
# clean afterwards, or gone. Each fiber moves money; in the end none was made or lost. NB's pool rolls
# back by itself, with the gem's the transaction does.
class LoadTest < Minitest::Test
  include Clock

  FIBERS = 1_000
  SIZE = 12

  # A driver in the words of this test.
  class Driver
    def initialize(server) = @server = server
    attr_reader :server

    def transaction(connection, tidies)
      run(connection, "BEGIN")
      yield
      run(connection, "COMMIT")
    rescue Exception # rubocop:disable Lint/RescueException -- raised again
      rollback(connection) unless tidies
      raise
    end

    private

    # A second interruption may come here: what it leaves, pg and Trilogy take for open.
    def rollback(connection)
      whole = idle?(connection) && run(connection, "ROLLBACK")
    rescue StandardError
      nil # it has been closed
    ensure
      connection.close unless whole || closed?(connection)
    end
  end

  # pg keeps its connection after an interruption: a query of it may still run.
  class Pg < Driver
    def connect = PG.connect(server.url, sslmode: "disable")
    def run(connection, sql) = connection.exec(sql).values
    def sleep_sql(seconds) = "SELECT pg_sleep(#{seconds})"
    def clean?(connection) = connection.transaction_status == PG::PQTRANS_IDLE

    def sessions(connection)
      run(connection, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'nb' AND pid <> pg_backend_pid()")[0][0].to_i
    end

    private

    def idle?(connection) = connection.transaction_status != PG::PQTRANS_ACTIVE
    def closed?(connection) = connection.finished?
  end

  # Interrupted in mid-query, mysql2 closes its connection, and Trilogy's is of no use any more.
  class MySQL < Driver
    def sleep_sql(seconds) = "SELECT SLEEP(#{seconds})"
    def clean?(connection) = run(connection, "SELECT @@in_transaction")[0][0].zero?

    def sessions(connection)
      run(connection, "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'nb'")[0][0] - 1
    end

    private

    def idle?(_) = true
    def closed?(connection) = connection.closed?
  end

  class ByMysql2 < MySQL
    def connect = Mysql2::Client.new(**server.options)
    def run(connection, sql) = connection.query(sql, as: :array).to_a
  end

  class ByTrilogy < MySQL
    def connect = Trilogy.new(**server.options)
    def run(connection, sql) = connection.query(sql).rows
  end

  # The gem, with what users do: look whether it is alive, and discard it if not.
  class GemPool
    def initialize(&connect) = @pool = ConnectionPool.new(size: SIZE, timeout: 60, &connect)

    def with
      @pool.with do |connection|
        yield connection
      ensure
        @pool.discard_current_connection if dead?(connection)
      end
    end

    def close = @pool.shutdown { |connection| connection.close unless dead?(connection) }

    private

    def dead?(connection)
      %i[closed? finished?].any? { |name| connection.respond_to?(name) && connection.public_send(name) }
    end
  end

  DRIVERS = {
    pg: -> { Pg.new(Databases.postgresql) },
    mysql2: -> { ByMysql2.new(Databases.mariadb) },
    trilogy: -> { ByTrilogy.new(Databases.mariadb) }
  }.freeze
  POOLS = {
    nb: ->(&connect) { NB::ConnectionPool.new(size: SIZE, timeout: 60, &connect) },
    gem: ->(&connect) { GemPool.new(&connect) }
  }.freeze

  DRIVERS.each_key do |driver|
    POOLS.each_key do |pool|
      define_method("test_even_waits_#{driver}_#{pool}") { even_waits }
      define_method("test_money_stays_the_same_#{driver}_#{pool}") { interrupted_transfers }
    end
    define_method("test_the_server_restarts_#{driver}_nb") { restart_under_load }
  end

  def setup
    driver, pool = name[/_(?:#{DRIVERS.keys.join("|")})_\w+\z/].delete_prefix("_").split("_")
    @driver = DRIVERS.fetch(driver.to_sym).call
    @pool_of = POOLS.fetch(pool.to_sym)
    @watch = @driver.connect
    @fds = Leaks.fds.size
  end

  def teardown
    deadline = clock + 10
    # What an interrupted connect, or pg's own cancel, leaves goes with the garbage; a pool keeps none.
    GC.start || sleep(0.02) until gone? || clock > deadline
    assert_equal 0, @driver.sessions(@watch), "sessions left on the server"
    assert_operator Leaks.fds.size, :<=, @fds, "fds left: #{Leaks.fds}"
  ensure
    @watch&.close
  end

  private

  def gone? = @driver.sessions(@watch).zero? && Leaks.fds.size <= @fds

  # Twice each: who comes back for more stands behind those that wait.
  def even_waits
    settled = waits.last(FIBERS).sort # the first round comes to an empty pool
    assert_in_time settled.last, 2 * settled[FIBERS / 2], "the longest wait, twice the middle one"
  end

  # @return [Array<Float>] how long each had to wait for its connection
  def waits
    waits = []
    with_pool do |pool|
      all = FIBERS.times.map { NB.async { 2.times { lend(pool, waits) } } }
      all.each(&:value)
    end
    waits
  end

  def lend(pool, waits)
    start = clock
    pool.with do |connection|
      waits << (clock - start)
      @driver.run(connection, @driver.sleep_sql(0.003))
    end
  end

  # A third is interrupted somewhere: by a timeout, a cancel or an error of its own.
  def interrupted_transfers
    accounts
    random = Random.new(7)
    done = 0
    with_pool do |pool|
      all = FIBERS.times.map do |i|
        NB.async { done += 1 if transfer(pool, i, random) }
      end
      all.each_slice(40) { |some| sleep(0.01) && some.sample(random: random).cancel }
      all.each(&:wait)
      check_clean(pool)
    end
    assert_operator done, :>, FIBERS / 3
    assert_equal 100, @driver.run(@watch, "SELECT SUM(amount) FROM accounts")[0][0].to_i
  ensure
    @driver.run(@watch, "DROP TABLE accounts")
  end

  def transfer(pool, index, random)
    from = index % 10
    to = (from + 1 + random.rand(9)) % 10
    NB.timeout(index % 5 == 0 ? 0.5 + random.rand * 2 : nil) do
      pool.with do |connection|
        @driver.transaction(connection, pool.is_a?(NB::ConnectionPool)) do
          # In the order of their numbers, so that no two wait for each other.
          [[from, -1], [to, 1]].sort.each do |id, amount|
            @driver.run(connection, "UPDATE accounts SET amount = amount + #{amount} WHERE id = #{id}")
            raise ArgumentError, "in the middle" if index % 7 == 0
          end
          @driver.run(connection, @driver.sleep_sql(0.001))
        end
      end
    end
    true
  rescue Timeout::Error, ArgumentError
    false
  end

  def accounts
    @driver.run(@watch, "CREATE TABLE accounts (id int PRIMARY KEY, amount int)#{" ENGINE=InnoDB" unless pg?}")
    @driver.run(@watch, "INSERT INTO accounts VALUES #{Array.new(10) { |i| "(#{i}, 10)" }.join(", ")}")
  end

  # All connections that are lent out now, at the same time.
  def check_clean(pool)
    seen = SIZE.times.map do
      NB.async { pool.with { |connection| @driver.clean?(connection).tap { sleep 0.1 } } }
    end
    assert_equal [true], seen.map(&:value).uniq
  end

  def restart_under_load
    failed = done = 0
    with_pool do |pool|
      all = FIBERS.times.map do
        NB.async do
          pool.with { |connection| @driver.run(connection, @driver.sleep_sql(0.005)) }
          done += 1
        rescue PG::Error, Mysql2::Error, Trilogy::Error, SystemCallError, IOError
          failed += 1
        end
      end
      sleep 0.1
      NB.offload { @driver.server.restart }
      all.each(&:wait)
      @watch.close
      @watch = again { @driver.connect }
      again { 2.times { pool.with { |connection| @driver.run(connection, "SELECT 1") } } }
    end
    assert_equal FIBERS, failed + done
    assert_operator failed, :>, 0
  end

  # A database needs a moment after its start, and each connection must notice.
  def again
    tries = 0
    begin
      yield
    rescue PG::Error, Mysql2::Error, Trilogy::Error, SystemCallError
      raise if (tries += 1) > 100

      sleep 0.05
      retry
    end
  end

  def with_pool
    NB.run do
      NB.timeout(60) do
        pool = @pool_of.call { @driver.connect }
        yield pool
      ensure
        pool&.close
      end
    end
  end

  def pg? = @driver.is_a?(Pg)
end
# rubocop:enable Layout/LineLength
