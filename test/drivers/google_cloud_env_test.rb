# frozen_string_literal: true

require "minitest/autorun"
require "google/cloud/env"
require "neverblock"

# Values that google-cloud-env computes once for all who ask: in a loop, fibers wait for the one
# that computes, as threads do.
class GoogleCloudEnvTest < Minitest::Test
  LIMIT = 60
  OWN = "deadlock: tried to call LazyValue#get from its own computation"

  def lazy(&block) = Google::Cloud::Env::LazyValue.new(&block)
  def inside(&block) = NB.run { NB.timeout(LIMIT, &block) }
  def at_once(value) = Array.new(20) { NB.async { outcome { value.get } } }.map(&:value)

  def outcome
    yield
  rescue StandardError => error
    [error.class, error.message]
  end

  def test_all_fibers_get_what_one_computes
    computed = 0
    value = lazy { sleep(0.01) && computed += 1 }
    assert_equal [1], inside { at_once(value) }.uniq
    assert_equal 1, computed
  end

  def test_the_block_of_the_loop_computes_for_its_fibers
    asked = []
    value = lazy { NB.async { asked << outcome { value.get } } && sleep(0.01) && 7 }
    assert_equal 7, inside { value.get.tap { sleep 0.001 while asked.empty? } }
    assert_equal [7], asked
  end

  def test_an_error_comes_to_all
    value = lazy { sleep(0.01) && raise(KeyError, "none") }
    assert_equal [[KeyError, "none"]], inside { at_once(value) }.uniq
  end

  def test_an_expired_value_is_computed_anew
    computed = 0
    value = lazy { sleep(0.01) && Google::Cloud::Env::LazyValue.expiring_value(0.5, computed += 1) }
    assert_equal [[1], [2]], inside { Array.new(2) { at_once(value).uniq.tap { sleep 0.6 } } }
  end

  def test_whoever_asks_for_its_own_value_learns_so
    worlds = [->(&block) { block.call }, ->(&block) { inside(&block) },
              ->(&block) { inside { NB.async(&block).value } },
              ->(&block) { inside { Enumerator.new { |enum| enum << block.call }.next } }]
    worlds.each do |world|
      value = lazy { value.get }
      assert_equal [ThreadError, OWN], world.call { outcome { value.get } }
    end
  end

  def test_threads_and_fibers_share_a_value
    value = lazy { sleep(0.02) && 7 }
    threads = Array.new(3) { Thread.new { value.get } }
    assert_equal [7], inside { at_once(value) }.uniq
    assert_equal [7], threads.map(&:value).uniq
  end
end
