# frozen_string_literal: true

require "minitest/autorun"
require_relative "../../rakelib/transparency_page"

# docs/TRANSPARENCY.md is what the results say, and the results are those of tests that exist.
# (Whether a library's results are those of its tests, its own test says.)
class PageTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)

  def test_the_page_is_what_the_results_say
    skip "being measured" if ENV["NB_RESULTS"]
    Dir.chdir(ROOT) do
      assert_equal TransparencyPage.new.to_s, File.read(TransparencyPage::PATH),
        "stale; rake transparency writes it anew"
    end
  end

  def test_every_result_has_a_test_and_every_library_results
    tested = Dir["#{__dir__}/**/*_test.rb"].flat_map do |file|
      File.read(file).scan(/^  library "(.+?)"/)
    end
    written = Dir["#{__dir__}/results/*.json"].map { |file| File.basename(file, ".json") }

    assert_equal tested.flatten.map { |name| name.gsub(%r{[^\w.-]+}, "-") }.sort, written.sort
  end
end
