# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
begin
  require "active_support/all"
  require "chewy"
rescue LoadError
  nil
end

# Chewy collects what a request changes in a stack of strategies per thread.
class ChewyTest < Minitest::Test
  COUNT = 30
  # Stands for an index: what is imported at once, by id.
  class Index
    attr_reader :imported

    def initialize = @imported = []
    def root = self
    def id = true
    def import!(ids) = @imported << ids
  end

  def setup
    skip "chewy is not installed" unless defined?(Chewy::Strategy)
    @index = Index.new
    Chewy.current.clear
  end

  # As its Rack middleware does it, around what a request saves.
  def request(id, count = 2)
    Chewy.strategy(:atomic) do
      count.times { |part| save(id, part) }
      yield if block_given?
    end
  end

  def save(id, part = 0)
    Chewy.strategy.current.update(@index, [[id, part]])
    sleep(rand * 0.01)
  end

  def test_requests_index_their_own_changes_as_threads_do
    wanted = (1..COUNT).map { |id| [[id, 0], [id, 1]] }
    (1..COUNT).map { |id| Thread.new { request(id) } }.each(&:join)
    assert_equal wanted, @index.imported.sort
    @index.imported.clear
    NB.run { (1..COUNT).each { |id| Fiber.schedule { request(id) } } }
    assert_equal wanted, @index.imported.sort
  end

  def test_fibers_of_a_request_collect_for_it_or_for_themselves
    NB.run do
      Fiber.schedule do
        request(1, 1) do
          NB.gather(-> { save(1, 1) }, -> { request(2) { save(2, 2) } },
                    -> { sleep(0.05) && save(1, 2) })
        end
      end
    end
    assert_equal [[[2, 0], [2, 1], [2, 2]], [[1, 0], [1, 1], [1, 2]]], @index.imported
  end

  def test_all_fibers_have_the_same_client
    NB.run do
      clients = NB.map(1..5, concurrency: 5) { sleep(0.001) && Chewy.client }
      assert_equal 1, clients.uniq(&:object_id).size
    end
  end

  def test_a_strategy_around_the_loop_is_that_of_its_fibers
    Chewy.strategy(:bypass) do
      NB.run { NB.gather(-> { save(1) }, -> { NB.async { save(2) }.value }) }
    end
    assert_empty @index.imported
    assert_raises(Chewy::UndefinedUpdateStrategy) { save(3) }
  end
end
