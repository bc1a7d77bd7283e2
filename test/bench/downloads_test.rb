# frozen_string_literal: true

require_relative "helper"

# Each HTTP client of G2, and each way of Net::HTTP of G1, gets the whole file.
class BenchDownloadsTest < Minitest::Test
  include BenchHelper

  # Its start is more than a small download.
  def test_the_start_of_curl_is_subtracted
    sample = cell("g2", { impl: "curl", site: "dallas", bytes: 200_000 })
    whole = sample["cpu"] / sample["operations"] * 1e9

    assert_operator sample["metrics"]["start_s"], :>, 0
    assert_in_delta whole - (sample["metrics"]["start_s"] / 200_000 * 1e9), sample["value"], 1e-6
    refute cell("g2", { impl: "stock", site: "dallas", bytes: 200_000 })["metrics"].key?("start_s")
  end

  %w[blocking threads nb async].each do |runtime|
    define_method("test_stock_of_g8_gets_every_byte_in_#{runtime}") do
      skip "gem async needs Ruby 3.2" if runtime == "async" && RUBY_VERSION < "3.2"
      sample = cell("g8", { runtime: runtime, site: "dallas", bytes: 200_000 })

      assert_equal [nil, 0], sample.values_at("failure", "errors"), sample["first_error"]
      assert_operator sample["operations"], :>=, 200_000
    end
  end

  %w[g1 g2].each do |id|
    Bench.tables[id].axis(:impl).values.each do |impl|
      define_method("test_#{impl}_of_#{id}_gets_every_byte") do
        sample = cell(id, { impl: impl, site: "dallas", bytes: 200_000 })

        assert_nil sample["failure"]
        assert_equal 0, sample["errors"], sample["first_error"]
        assert_operator sample["operations"], :>=, 200_000
      end
    end
  end
end
