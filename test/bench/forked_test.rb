# frozen_string_literal: true

require_relative "helper"

# F6: children that share their parent's memory.
class BenchForkedTest < Minitest::Test
  include BenchHelper

  def measure(**params) = cell("f6", { children: 2, **params })

  def test_a_child_that_collects_owns_far_more
    before, after = [0, 1].map do |count|
      sample = measure(way: "fork", collections: count)
      assert_equal 0, sample["errors"], sample["first_error"]
      sample["value"]
    end

    assert_operator after, :>, before * 10
  end

  def test_a_ruby_without_warmup_says_so
    sample = measure(way: "warmup", collections: 0)
    return assert_operator(sample["value"], :>, 0) if Process.respond_to?(:warmup)

    assert_match(/undefined method .warmup/, sample["failure"])
  end
end
