# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "concurrent"
require "weakref"
require "server/helper"
require_relative "../support/subprocess"

# Concurrent::ThreadLocalVar, in which gems keep what belongs to a request.
class ConcurrentRubyTest < Minitest::Test
  include ServerTest

  COUNT = 50

  def setup = @variable = Concurrent::ThreadLocalVar.new(0)

  # What one request sees of it, before, during and after a block.
  def request(id)
    before = @variable.value
    @variable.value = id
    sleep(rand * 0.01)
    inner = @variable.bind(-id) { sleep(rand * 0.01) && @variable.value }
    [before, inner, @variable.value]
  end

  def fibers(ids)
    found = []
    NB.run { ids.each { |id| Fiber.schedule { found << yield(id) } } }
    found
  end

  def test_fibers_have_values_of_their_own_as_threads_have
    ids = (1..COUNT).to_a
    expected = ids.map { |id| [0, -id, id] }
    assert_equal expected, ids.map { |id| Thread.new { request(id) } }.map(&:value)
    assert_equal expected, fibers(ids) { |id| request(id) }.sort_by(&:last)
    assert_equal 0, @variable.value
  end

  def test_each_fiber_makes_its_default_once
    lists = Concurrent::ThreadLocalVar.new { [] }
    found = fibers(1..COUNT) do |id|
      lists.value << id
      sleep 0.001
      lists.value << id
    end
    assert_equal (1..COUNT).map { |id| [id, id] }, found.sort
  end

  def test_fibers_of_a_request_begin_with_copies
    list = Concurrent::ThreadLocalVar.new { [] }
    found = fibers(1..20) do |id|
      @variable.value = id
      list.value << id
      inner = NB.gather(-> { list.value << 0 && @variable.value.tap { @variable.value = 0 } },
                        -> { sleep(0.001) && @variable.value },
                        -> { NB.async { request(7) }.value })
      [id, inner, @variable.value, list.value]
    end
    expected = (1..20).map { |id| [id, [id, id, [id, -7, 7]], id, [id]] }
    assert_equal expected, found.sort
  end

  def test_a_fiber_inside_a_request_has_its_value
    found = fibers(1..20) do |id|
      @variable.value = id
      Enumerator.new { |values| values << @variable.value << (@variable.value = -id) }.take(2) <<
        Fiber.new { @variable.value }.resume << @variable.value
    end
    assert_equal (1..20).map { |id| [id, -id, -id, -id] }, found.sort_by(&:first)
  end

  def test_the_block_of_a_loop_has_the_value_of_its_thread
    @variable.value = 3
    NB.run do
      inner = NB.async { @variable.value.tap { @variable.value = 5 } }.value
      assert_equal [3, 3], [@variable.value, inner]
      @variable.value = 4
    end
    assert_equal 4, @variable.value
  ensure
    @variable.value = 0
  end

  # The next variable gets the place of one that has been collected.
  def test_a_new_variable_has_no_value_of_a_collected_one
    NB.run do
      NB.async do
        20.times { Concurrent::ThreadLocalVar.new.value = :old }
        GC.start
        new = Array.new(20) { Concurrent::ThreadLocalVar.new }
        assert_equal [nil] * 20, new.map(&:value)
      end.value
    end
  end

  # A server's fibers do not end.
  def test_what_a_request_has_set_is_collected_after_it
    kept = []
    variables = [Concurrent::FiberLocalVar.new, Concurrent::ThreadLocalVar.new]
    serve(lambda do |_|
      values = variables.map { |one| one.value.tap { one.value = Object.new } }
      variables.each { |one| kept << WeakRef.new(one.value) }
      [200, TEXT, [values.compact.size.to_s]]
    end)
    answers = Array.new(100) { get[/\d+\z/] }
    assert_equal %w[0] * 100, answers
    3.times { GC.start }
    assert_operator kept.count(&:weakref_alive?), :<, 50
  end

  def test_switched_off_it_is_the_thread_s
    result = Subprocess.ruby(<<~PROGRAM, env: { "NB_DRIVERS" => "-concurrent-ruby" })
      require "concurrent"
      variable = Concurrent::ThreadLocalVar.new(0)
      NB.run { Fiber.schedule { variable.value = 1 } }
      print variable.value
    PROGRAM
    assert_equal "1", result.out, result.err
  end
end
