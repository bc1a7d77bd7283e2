# frozen_string_literal: true

require_relative "helper"

# Each HTTP client of G2, and each way of Net::HTTP of G1, gets the whole file.
class BenchDownloadsTest < Minitest::Test
  include BenchHelper

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
