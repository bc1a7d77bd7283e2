# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "request_store"

# What the fibers of a request find in request_store, where PaperTrail keeps `whodunnit`.
class RequestStoreTest < Minitest::Test
  def setup = RequestStore.clear!
  def teardown = RequestStore.clear!

  # As its Rack middleware does it.
  def request(id)
    RequestStore.begin!
    RequestStore.clear!
    RequestStore[:who] = id
    sleep(0.001)
    yield
  ensure
    RequestStore.end!
  end

  def seen = [RequestStore[:who], RequestStore.active?]

  def in_requests(&block)
    NB.run do
      1.upto(20).map { |id| Fiber.schedule { request(id, &block) } }
    end
  end

  def test_fibers_of_a_request_begin_with_a_copy_of_its_store
    answers = []
    in_requests do
      mine = seen
      inner = NB.gather(-> { sleep(0.001) && seen.tap { RequestStore[:who] = 0 } }, -> { seen })
      answers << [mine, inner + [NB.async { seen }.value], seen]
    end
    assert_equal 20, answers.size
    answers.each { |mine, inner, after| assert_equal [[mine] * 3, mine], [inner, after] }
    assert_equal (1..20).map { |id| [id, true] }, answers.map(&:first).sort
  end

  def test_fibers_of_nobody_begin_without_values
    store = nil
    NB.run { NB.gather(-> { store = seen }) }
    assert_equal [nil, false], store
  end

  def test_what_a_fiber_adds_is_its_own
    answers = []
    in_requests do
      NB.gather(-> { RequestStore[:more] = 1 }, -> { sleep(0.001) })
      answers << RequestStore.exist?(:more)
    end
    assert_equal [false] * 20, answers
  end

  # PaperTrail has a Hash there, and changes it for its blocks.
  def test_what_a_fiber_changes_in_a_hash_or_list_is_its_own
    answers = []
    in_requests do
      RequestStore[:trail] = { who: RequestStore[:who] }
      RequestStore[:list] = [RequestStore[:who]]
      inner = NB.map([-1, -2, -3], concurrency: 3) do |id|
        RequestStore[:trail][:who] = id
        RequestStore[:list] << id
        sleep(0.001)
        [RequestStore[:trail][:who], RequestStore[:list].drop(1)]
      end
      answers << [inner, [RequestStore[:trail][:who], *RequestStore[:list]].uniq]
    end
    expected = (1..20).map { |id| [[-1, -2, -3].map { |one| [one, [one]] }, [id]] }
    assert_equal expected, answers.sort_by(&:last)
  end
end
