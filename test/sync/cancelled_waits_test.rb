# frozen_string_literal: true

require_relative "support"

# A cancel in each turn of the loop, from the first to the victim's last: so it meets every wait, at
# its beginning, in its middle, and when what it waits for is there and it has not run yet. Whatever
# it meets, nobody else waits forever, and nothing is left behind.
class CancelledWaitsTest < Minitest::Test
  include SyncSupport

  MOST = 100 # turns, more than any of these takes
  LIMIT = 60 # seconds, by which what waits forever is told from what does not

  # Runs the block for each turn; it hands its victim to what it is given.
  def each_turn
    struck = (0..MOST).take_while do |count|
      alive = false
      yield lambda { |victim|
        turns(count)
        (alive = victim.alive?) && victim.cancel
      }
      alive
    end
    assert_includes 3...MOST, struck.size
  end

  def turns(count) = count.times { sleep(0) }

  def assert_ends(*tasks) = tasks.each { |task| assert task.wait(LIMIT), "#{task.inspect} waits" }

  def assert_at_rest(pool)
    assert_equal [0, 0], pool.stats.values_at(:in_use, :waiting)
    assert_equal(:free, pool.with(timeout: 0) { :free })
  end

  scheduled "a_connection_pool_serves_who_comes_after", others: false do
    each_turn do |strike|
      made = []
      pool = NB::ConnectionPool.new(size: 1, timeout: nil) { turns(2) && made.push(StringIO.new).last }
      users = Array.new(3) { |user| NB::Task.new { pool.with { turns(2) && user } } }
      strike.call(users[1])
      assert_ends(*users)
      assert_equal [0, 2], [users[0].value, users[2].value]
      assert_at_rest(pool)
      assert_operator made.count { |connection| !connection.closed? }, :<=, 1
    end
  end

  scheduled "a_connection_pool_that_connects_serves_who_comes_after", others: false do
    each_turn do |strike|
      pool = NB::ConnectionPool.new(size: 1, timeout: nil) { turns(3) && StringIO.new }
      users = Array.new(3) { |user| NB::Task.new { pool.with { turns(1) && user } } }
      strike.call(users[0])
      assert_ends(*users)
      assert_equal [1, 2], [users[1].value, users[2].value]
      assert_at_rest(pool)
    end
  end

  scheduled "who_waits_for_a_task_leaves_the_others_waiting", others: false do
    each_turn do |strike|
      task = NB::Task.new { turns(4) && :done }
      waiters = Array.new(3) { NB::Task.new { task.value } }
      strike.call(waiters[1])
      assert_ends(task, *waiters)
      assert_equal [:done] * 3, [task, waiters[0], waiters[2]].map(&:value)
    end
  end

  scheduled "a_group_ends_with_all_of_its_tasks", others: false do
    each_turn do |strike|
      begun = ended = 0
      work = lambda do
        begun += 1
        turns(3)
      ensure
        begin
          turns(2)
        ensure
          ended += 1
        end
      end
      victim = NB::Task.new { NB::Group.run { |group| 3.times { group.async(&work) } && turns(1) } }
      strike.call(victim)
      assert_ends(victim)
      assert_equal [3, 3], [begun, ended]
    end
  end

  scheduled "map_ends_with_all_that_it_began", others: false do
    each_turn do |strike|
      begun = ended = 0
      victim = NB::Task.new do
        NB.map(1..5, concurrency: 2) do
          begun += 1
          turns(2)
        ensure
          ended += 1
        end
      end
      strike.call(victim)
      assert_ends(victim)
      assert_equal begun, ended
    end
  end

  scheduled "who_waits_for_a_fiber_pool_leaves_the_others_waiting", others: false do
    each_turn do |strike|
      pool = NB::FiberPool.new(2)
      done = 0
      4.times { pool.spawn { turns(2) && done += 1 } }
      waiters = Array.new(3) { NB::Task.new { pool.wait && done } }
      strike.call(waiters[1])
      assert_ends(*waiters)
      assert_equal [4, 4], [waiters[0].value, waiters[2].value]
    end
  end
end
