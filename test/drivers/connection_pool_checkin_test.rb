# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "neverblock"
require "connection_pool"

# A connection of the connection_pool gem goes back whole, whatever strikes meanwhile: the gem masks
# interrupts there, and in a loop they are raised all the same. By threads it is the same.
class ConnectionPoolCheckinTest < Minitest::Test
  WORLDS = { threads: Thread.method(:new), loop: NB.method(:async) }.freeze
  Thing = Class.new

  # The gem closes connections with its lock, for which who gives one back must wait.
  WORLDS.each do |world, spawn|
    define_method("test_a_timeout_loses_no_connection_while_others_are_closed_in_#{world}") do
      within(world) do
        pool = ConnectionPool.new(size: 2, timeout: 5) { Thing.new }
        taken, closing = Array.new(2) { Queue.new }
        pool.with { spawn.call { pool.with(&:itself) }.value } # both are made
        user = spawn.call do
          timed_out?(0.2) { pool.with { (taken << true) && closing.pop } }
        end
        taken.pop
        spawn.call { pool.reload { (closing << true) && sleep(0.4) } }.value
        assert_equal [true, 2, 2], [user.value, *counts(pool)]
      end
    end

    define_method("test_a_timeout_lends_out_no_discarded_connection_in_#{world}") do
      within(world) do
        pool = ConnectionPool.new(size: 1, timeout: 5) { Thing.new }
        user = spawn.call do
          discarded = nil
          late = timed_out?(0.05) do
            pool.with do
              pool.discard_current_connection { |thing| (discarded = thing) && sleep(0.2) }
            end
          end
          [late, pool.with { |thing| thing.equal?(discarded) }, *counts(pool)]
        end
        assert_equal [true, false, 1, 1], user.value
      end
    end
  end

  # What is raised in a fiber that computes strikes where it gives its connection back.
  def test_what_is_on_its_way_loses_no_connection
    NB.run do
      pool = ConnectionPool.new(size: 1) { Thing.new }
      user = NB.async do
        pool.with { Fiber.scheduler.fiber_interrupt(Fiber.current, IOError.new) }
      rescue IOError
        :struck
      end
      assert_equal [:struck, 1, 1], [user.value, *counts(pool)]
    end
  end

  # As that of a release is, once there are newer ones.
  def test_in_a_working_directory_that_was_deleted
    output, status = Open3.capture2e(RbConfig.ruby, "-W0", "-Ilib", "-e", <<~'RUBY')
      require "connection_pool"
      require "neverblock"
      require "tmpdir"
      Dir.rmdir(Dir.mktmpdir.tap { |folder| Dir.chdir(folder) })
      puts NB.run { ConnectionPool.new { "mine" }.with(&:itself) }
    RUBY
    assert_equal "mine\n", output
    assert_predicate status, :success?
  end

  # One that makes nothing has what was pushed.
  def test_a_stack_without_a_block
    WORLDS.each_key do |world|
      within(world) do
        stack = ConnectionPool::TimedStack.new
        stack << 1
        assert_equal 1, stack.pop, world
        assert_raises(ConnectionPool::TimeoutError) { stack.pop(timeout: 0.01) }
      end
    end
  end

  private

  def within(world, &) = world == :loop ? NB.run(&) : yield

  def timed_out?(seconds, &)
    Timeout.timeout(seconds, &) && false
  rescue Timeout::Error
    true
  end

  # How many can be had, and how many are had at once.
  def counts(pool)
    found, gate = Array.new(2) { Thread::Queue.new }
    users = Array.new(pool.size) { Thread.new { hold(pool, found, gate) } }
    held = users.map { found.pop }.compact
    gate.close
    users.each(&:join)
    [pool.available, held.uniq.size]
  end

  def hold(pool, found, gate)
    pool.with(timeout: 1) { |thing| (found << thing) && gate.pop }
  rescue ConnectionPool::TimeoutError
    found << nil
  end
end
