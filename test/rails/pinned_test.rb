# frozen_string_literal: true

require "rails/helper"

# A connection that a test has pinned, as Rails' transactional fixtures do: all share it, one after
# the other, and each gets the result of its own query.
class RailsPinnedTest < Minitest::Test
  RailsApp.load("neverblock_postgresql")

  def setup
    Account.delete_all
    pool.pin_connection!(true)
  end

  def teardown
    pool.unpin_connection!
    assert_equal [0, 0], pool.stat.values_at(:busy, :dead)
    assert_equal 0, Account.count # rolled back
  end

  def test_fibers_of_another_threads_loop
    answers = Thread.new { in_fibers(1..20) }
    assert_equal (1..20).to_a, answers.value
    assert_equal 20, Account.count
  end

  def test_fibers_of_two_loops_and_threads
    loops = [1..10, 11..20].map { |numbers| Thread.new { in_fibers(numbers) } }
    threads = Array.new(5) { |number| Thread.new { [use(number + 21)] } }
    here = 3.times.map { |number| use(number + 26) }
    assert_equal (1..28).to_a, [*loops, *threads].flat_map(&:value).concat(here).sort
    assert_equal 28, Account.count
  end

  # A fiber inside one that uses the connection belongs to it, and does not wait for it.
  def test_an_enumerator_inside_a_use
    both = lambda do
      rows = Enumerator.new { |yielder| 3.times { |number| yielder << ask(number) } }
      Account.with_connection { |one| one.lock.synchronize { [rows.next, ask(9), rows.next] } }
    end
    assert_equal [0, 9, 1], both.call
    assert_equal [0, 9, 1], Thread.new { NB.run { NB.async { both.call }.value } }.value
  end

  private

  def pool = Account.connection_pool

  def in_fibers(numbers)
    NB.run { NB.map(numbers, concurrency: numbers.size) { |number| use(number) } }
  end

  # @return [Integer] the number, by way of the database
  def use(number)
    Account.create!(id: number, balance: number)
    ask(number)
  end

  def ask(number)
    Account.with_connection { |one| one.select_value("SELECT #{number} FROM pg_sleep(0.002)") }
  end
end
