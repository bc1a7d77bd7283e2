# frozen_string_literal: true

require "open3"
require_relative "pooled_connections"

# What becomes of a connection whose block was left in the middle.
class ConnectionPoolLeftTest < Minitest::Test
  include SyncSupport
  include PooledConnections

  # How a block may be left in the middle.
  MIDDLES = {
    exception: lambda do |pool|
      pool.with { raise IOError, "in the middle" }
    rescue IOError
      nil
    end,
    throw: ->(pool) { catch(:out) { pool.with { throw :out } } },
    timeout: lambda do |pool|
      pool.with { NB.timeout(0.01) { sleep } }
    rescue Timeout::Error
      nil
    end
  }.freeze

  MIDDLES.each do |name, leave|
    define_method("test_tidies_what_was_left_by_#{name}") do
      tidied = []
      pool, made = pool_and_made(size: 1, tidy: ->(connection) { tidied << connection.id })
      NB.run { leave.call(pool) }
      pool.with { |connection| assert_equal 0, connection.id }
      assert_equal [[0], 1], [tidied, made.size]
      assert_at_rest(pool, made)
    end
  end

  # It may have struck anywhere: what it left there is nobody's.
  def test_replaces_what_was_interrupted_and_nothing_else
    pool, made = pool_and_made(size: 1)
    NB.run do
      %i[exception throw].each { |name| MIDDLES[name].call(pool) }
      assert_equal 1, made.size
      MIDDLES[:timeout].call(pool)
      assert_predicate made[0], :closed?
      inside = Thread::Queue.new
      task = NB.async { pool.with { inside.push(true) && sleep } }
      inside.pop
      task.cancel.wait
      assert_predicate made[1], :closed?
      pool.with { |connection| assert_equal 2, connection.id }
    end
    assert_at_rest(pool, made)
  end

  def test_replaces_what_the_kill_of_a_fiber_has_struck
    skip "before Ruby 3.3, fibers cannot be killed" unless Fiber.method_defined?(:kill)
    pool, made = pool_and_made(size: 1)
    NB.run do
      inside = Thread::Queue.new
      fiber = Fiber.schedule { pool.with { inside.push(true) && sleep } }
      inside.pop
      fiber.kill
      Fiber.schedule { pool.with { Fiber.current.kill } }
      pool.with { |connection| assert_equal 2, connection.id }
    end
    assert_equal [true, true, false], made.map(&:closed?)
    assert_at_rest(pool, made)
  end

  # While it waits, while it computes, and around the whole.
  def test_replaces_what_a_timeout_with_a_class_of_its_own_has_struck
    late = Class.new(StandardError)
    pool, made = pool_and_made(size: 1)
    [-> { pool.with { Timeout.timeout(0.002, late) { sleep } } },
     -> { pool.with { Timeout.timeout(0.002, late, "late") { loop { nil } } } },
     -> { Timeout.timeout(0.3, late) { pool.with { sleep } } },
     -> { Timeout.timeout(0.3, late.new("given")) { pool.with { sleep } } }]
      .each_with_index do |call, index|
        NB.run { assert_raises(late, &call) }
        assert_equal (0..index).to_a, made.map(&:id)
        assert made.all?(&:closed?)
      end
    NB.run { assert_raises(late) { pool.with { raise late, "the block's own" } } }
    assert_equal [5, false], [made.size, made.last.closed?]
    assert_at_rest(pool, made)
  end

  # Without a scheduler, on a thread. A timeout strikes after so many seconds.
  STRIKES = {
    kill: ->(pool, _) { Thread.new { pool.with { Thread.current.kill } }.join },
    kill_from_outside: lambda do |pool, _|
      inside = Thread::Queue.new
      thread = Thread.new { pool.with { inside.push(true) && sleep } }
      inside.pop
      thread.kill.join
    end,
    kill_of_a_rescue: lambda do |pool, _|
      Thread.new do
        raise KeyError
      rescue KeyError
        pool.with { Thread.current.kill }
      end.join
    end,
    timeout: ->(pool, seconds) { Timeout.timeout(seconds) { pool.with { sleep } } },
    timeout_in_a_rescue: lambda do |pool, seconds|
      raise KeyError
    rescue KeyError
      Timeout.timeout(seconds) { pool.with { sleep } }
    end,
    timeout_within: ->(pool, seconds) { pool.with { Timeout.timeout(seconds) { sleep } } },
    timeout_and_a_failing_ensure: lambda do |pool, seconds|
      Timeout.timeout(seconds) do
        pool.with do
          sleep
        ensure
          raise KeyError, "the answer is not there yet"
        end
      end
    end
  }.freeze

  STRIKES.each do |name, strike|
    define_method("test_on_a_thread_replaces_what_was_left_by_#{name}") do
      pool = made = nil
      [0.01, 0.1, 1, 10].each do |seconds|
        pool, made = pool_and_made(size: 1)
        in_thread do
          strike.call(pool, seconds)
        rescue Timeout::Error, KeyError
          nil
        end
        break if made.any? # otherwise it struck before there was anything to leave
      end
      assert_equal [true], made.map(&:closed?)
      pool.with { |connection| assert_equal 1, connection.id }
      assert_at_rest(pool, made)
    end
  end

  # Ruby's own Timeout: that of 3.1 throws, and leaves no error.
  def test_without_gems_replaces_what_was_left_by_a_timeout
    lib = File.expand_path("../../lib", __dir__)
    program = <<~RUBY
      require "neverblock/sync/connection_pool"
      pool = NB::ConnectionPool.new(size: 1) { Object.new }
      first = pool.with(&:itself)
      catch(:out) { Timeout.timeout(9) { nil } && pool.with { throw :out } }
      second = pool.with(&:itself)
      third = inside = nil
      begin
        raise KeyError
      rescue KeyError
        [0.01, 0.1, 1, 10].each do |seconds|
          Timeout.timeout(seconds) { pool.with { (inside = true) && sleep } }
        rescue Timeout::Error
          break third = pool.with(&:itself) if inside
        end
      end
      print [first, second, third].uniq.size
    RUBY
    out, = Open3.capture2e({"RUBYOPT" => nil}, RbConfig.ruby, "--disable-gems", "-I", lib,
                           "-e", program)
    assert_equal "2", out
  end

  def test_on_a_thread_keeps_what_was_left_by_an_error_or_a_jump
    pool, made = pool_and_made(size: 1)
    in_thread do
      MIDDLES.slice(:exception, :throw).each_value { |leave| leave.call(pool) }
      pool.with { break }
      Timeout.timeout(5) { pool.with { |connection| connection } }
    end
    assert_equal [false], made.map(&:closed?)
    assert_at_rest(pool, made)
  end

  def test_replaces_what_cannot_be_tidied
    [->(_) { false }, ->(_) { raise "lost" }].each do |tidy|
      pool, made = pool_and_made(size: 1, tidy: tidy)
      MIDDLES[:exception].call(pool)
      assert_predicate made[0], :closed?
      pool.with { |connection| assert_equal 1, connection.id }
      assert_at_rest(pool, made)
    end
  end

  def test_replaces_what_is_interrupted_while_it_is_tidied
    pool, made = pool_and_made(size: 1, tidy: ->(_) { sleep })
    NB.run do
      task = NB.async { MIDDLES[:exception].call(pool) }
      sleep 0.01
      task.cancel
      task.wait
      assert_predicate made[0], :closed?
      pool.with { |connection| assert_equal 1, connection.id }
    end
    assert_at_rest(pool, made)
  end

  # Of a class of its own, known as a timeout's in our loop only.
  scheduled "a_callers_timeout_comes_out_of_what_keeps_the_pool_in_order", others: false do
    late = Class.new(StandardError)
    wait = ->(_) { sleep }
    { alive: wait, tidy: wait, close: wait }.each do |name, slow|
      options = name == :close ? { alive: ->(_) { false } } : {}
      pool, made = pool_and_made(size: 1, name => slow, **options)
      pool.with { nil }
      assert_raises(late, name.to_s) do
        Timeout.timeout(0.02, late) { pool.with { raise "to be tidied" if name == :tidy } }
      end
      assert_equal [0, 0], pool.stats.values_at(:in_use, :idle)
      assert_equal 1, made.size
    end
  end
end
