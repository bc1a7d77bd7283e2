# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
begin
  require "rails" # whose isolation Mongoid follows
  require "active_support/isolated_execution_state"
  require "mongoid"
rescue LoadError
  nil
end

# Mongoid keeps its scopes, sessions and databases per thread.
class MongoidTest < Minitest::Test
  COUNT = 30

  def setup
    skip "mongoid is not installed" unless defined?(Mongoid::Threaded)
    @threaded = Mongoid::Threaded
    @threaded.database_override = nil
  end

  # A request that works in the database of its client.
  def request(id)
    before = @threaded.database_override
    @threaded.database_override = "db#{id}"
    sleep(rand * 0.01)
    @threaded.begin_execution("create") if id.even?
    sleep(rand * 0.01)
    [id, before, @threaded.database_override, @threaded.executing?("create")]
  ensure
    @threaded.exit_execution("create") if id.even?
  end

  def expected(id, before = nil) = [id, before, "db#{id}", id.even?]

  def test_requests_have_their_own_database_and_scopes_as_threads_have
    ids = (1..COUNT).to_a
    wanted = ids.map { |id| expected(id) }
    assert_equal wanted, ids.map { |id| Thread.new { request(id) } }.map(&:value)
    found = []
    NB.run { ids.each { |id| Fiber.schedule { found << request(id) } } }
    assert_equal wanted, found.sort
  end

  def test_fibers_of_a_request_begin_with_copies
    found = []
    NB.run do
      (1..10).each do |id|
        Fiber.schedule do
          @threaded.database_override = "db#{id}"
          inner = NB.gather(-> { request(id + 10) },
                            -> { sleep(0.001) && @threaded.database_override })
          found << [id, inner, @threaded.database_override]
        end
      end
    end
    wanted = (1..10).map { |id| [id, [expected(id + 10, "db#{id}"), "db#{id}"], "db#{id}"] }
    assert_equal wanted, found.sort
  end

  # And neither the fibers beside them nor the request see what they change.
  def test_scopes_of_a_request_are_not_those_of_its_fibers
    found = nil
    NB.run do
      Fiber.schedule do
        scope = lambda do |value|
          @threaded.set_current_scope(value, String)
          sleep 0.001
          @threaded.current_scope(String)
        end
        scope.call(0)
        @threaded.begin_execution("create")
        finished = lambda do
          @threaded.exit_execution("create")
          sleep 0.001
          @threaded.executing?("create")
        end
        inner = NB.gather(-> { scope.call(1) }, -> { scope.call(2) }, finished)
        found = [inner, @threaded.current_scope(String), @threaded.executing?("create")]
      end
    end
    assert_equal [[1, 2, false], 0, true], found
  end
end
