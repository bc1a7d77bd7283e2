# frozen_string_literal: true

require_relative "helper"
require "minitest/mock"

# `--maps`: the machine's limit is raised for as long as the bench measures.
class BenchMapsTest < Minitest::Test
  def with_limit(text)
    Dir.mktmpdir do |folder|
      path = File.join(folder, "max_map_count")
      File.write(path, text)
      yield path
    end
  end

  def test_it_is_higher_inside_and_as_it_was_after
    with_limit("65530\n") do |path|
      inside = Bench::Maps.raised(500_000, path: path) { File.read(path) }

      assert_equal %w[500000 65530], [inside, File.read(path)]
      assert_raises(Interrupt) { Bench::Maps.raised(500_000, path: path) { raise Interrupt } }
      assert_equal "65530", File.read(path)
    end
  end

  def test_a_lower_limit_and_none_change_nothing
    with_limit("65530\n") do |path|
      [nil, 65_530, 1_000].each do |count|
        assert_equal "65530\n", Bench::Maps.raised(count, path: path) { File.read(path) }
      end
      assert_equal "65530\n", File.read(path)
    end
  end

  def test_what_somebody_else_sets_meanwhile_stays
    with_limit("65530\n") do |path|
      Bench::Maps.raised(500_000, path: path) { File.write(path, "262144") }

      assert_equal "262144", File.read(path)
    end
  end

  def test_a_limit_that_cannot_be_raised_says_so
    with_limit("65530\n") do |path|
      # Of the kernel only: here the write fails as it does there without root.
      refused = ->(*) { raise Errno::EACCES, path }
      error = assert_raises(Bench::Error) do
        File.stub(:write, refused) { Bench::Maps.raised(500_000, path: path) { flunk } }
      end

      assert_match(/cannot set vm.max_map_count to 500000 \(Permission denied.*needs root/,
                   error.message)
    end
  end
end
