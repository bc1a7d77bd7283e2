# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"

# What `fibers` of GoodJob and Sidekiq means.
class FibersSettingTest < Minitest::Test
  def test_a_number_is_that_many
    { 100 => 100, 1 => 1, "100" => 100, "2" => 2, "007" => 7 }.each do |given, count|
      assert_equal count, NB::FibersSetting.read(given), given.inspect
    end
  end

  def test_words_turn_fibers_on_and_off
    [true, "1", "true", "yes", "on"].each { |given| assert_equal true, read(given), given.inspect }
    [false, 0, "0", "false", "f", "no", "off", "OFF"].each do |given|
      assert_equal false, read(given), given.inspect
    end
    [nil, ""].each { |given| assert_nil read(given) }
  end

  def test_what_is_none_of_them_is_refused
    [-3, "-3", 2.5, "10.5", "5x", [5]].each do |given|
      error = assert_raises(ArgumentError) { read(given) }
      assert_equal "fibers: must be true, false or a number of fibers, got: #{given.inspect}",
                   error.message
    end
  end

  # Not of the numbers that a queue has by itself.
  def test_a_number_of_threads_beside_it_is_told
    told = [100, 5, 20].map { |threads| NB::FibersSetting.conflict(100, :concurrency, threads) }
    assert_equal [nil, nil, "fibers: 100 and concurrency: 20: 100 jobs run at once; leave one of " \
                            "the two out"], told
  end

  private

  def read(given) = NB::FibersSetting.read(given)
end
