# frozen_string_literal: true

require_relative "helper"

# Each HTTP client of G2 gets the whole file.
class BenchDownloadsTest < Minitest::Test
  include BenchHelper

  Bench.tables["g2"].axis(:impl).values.each do |impl|
    define_method("test_#{impl}_gets_every_byte") do
      sample = cell("g2", { impl: impl, site: "dallas", bytes: 200_000 })

      assert_nil sample["failure"]
      assert_equal 0, sample["errors"], sample["first_error"]
      assert_operator sample["operations"], :>=, 200_000
    end
  end
end
