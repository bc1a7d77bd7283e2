# frozen_string_literal: true

require_relative "support"

# What the tests of NB::ConnectionPool have in common: a pool whose connections notice misuse.
module PooledConnections
  # Stands for a driver's connection, and notices when two hold it at once.
  class Connection
    attr_reader :id, :most_users, :closed_count

    def initialize(id)
      @id = id
      @users = @most_users = @closed_count = 0
    end

    def use
      @users += 1
      @most_users = [@most_users, @users].max
      yield if block_given?
    ensure
      @users -= 1
    end

    def close = @closed_count += 1
    def closed? = @closed_count.positive?
  end

  # A pool, and all connections it ever made in `made`.
  def pool_and_made(**options)
    made = []
    pool = NB::ConnectionPool.new(**options) do
      sleep(0.0005)
      made << Connection.new(made.size)
      made.last
    end
    [pool, made]
  end

  # Has so many connections in use at once.
  def fill(pool, count)
    users = Thread::Queue.new
    concurrently(count) { pool.with { users << 1 && assert(settled { users.size == count }) } }
  end

  # As the pool of a test should be when all is over.
  def assert_at_rest(pool, made)
    stats = pool.stats
    open = made.reject(&:closed?)
    assert_equal 0, stats[:in_use]
    assert_equal 0, stats[:waiting]
    assert_equal open.size, stats[:idle], "a connection was lost"
    assert_operator made.map(&:most_users).max || 0, :<=, 1, "a connection was in two hands"
    assert_operator made.map(&:closed_count).max || 0, :<=, 1, "a connection was closed twice"
  end

  # A fiber or a thread, with `value`.
  def start(&block)
    Fiber.current_scheduler ? NB::Task.new(&block) : Thread.new(&block)
  end
end
