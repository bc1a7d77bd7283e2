# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require_relative "../support/program"

# The shop of examples/rails, raced as `bin/demo rails` does it.
class ShopTest < Minitest::Test
  def test_the_demo_asks_both_servers_and_writes_its_page
    Dir.mktmpdir do |folder|
      out, errors, status = Program.nb("demo", "rails", "--pages", "40", "--out", folder)

      assert_empty errors
      assert_equal 0, status.exitstatus, out
      assert_match(/^  Puma, 5 threads  █{32}   40 of 40 .* ✓$/, out)
      assert_match(/^  NeverBlock       █{32}   40 of 40 .* ✓$/, out)
      assert_operator out[/^([\d.]+) times as many pages/, 1].to_f, :>, 1.5, out
      page = File.read(File.join(folder, "index.html"))
      assert_includes page, "Pages answered, second by second"
      assert_equal 10, page.scan("<svg").size
    end
  end

  def test_a_wrong_command_line
    _, errors, status = Program.nb("demo", "rials")

    assert_includes errors, 'takes rails or nothing, and --out FOLDER; got: "rials"'
    assert_equal 2, status.exitstatus
  end
end
