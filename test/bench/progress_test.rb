# frozen_string_literal: true

require_relative "helper"
require "stringio"

class BenchProgressTest < Minitest::Test
  # A terminal that remembers.
  class Screen < StringIO
    def tty? = true
    def winsize = [24, 60]
  end

  def test_remaining_knows_each_kind_of_step
    progress = Bench::Progress.new(StringIO.new, clock: -> { 0.0 })
    progress.begin(%i[a b a b c])
    assert_nil progress.remaining

    progress.step(2.0)
    progress.step(4.0)
    # a: 2 s, b: 4 s, c unknown: their mean.
    assert_in_delta 9.0, progress.remaining, 1e-9
  end

  def test_the_line_fits_the_screen
    screen = Screen.new
    progress = Bench::Progress.new(screen, clock: -> { 0.0 })
    progress.begin(%i[a])
    progress.show("z" * 200)

    assert_match(/\[1\/1\] zzz/, screen.string)
    assert_operator screen.string.delete_prefix("\r\e[K").size, :<, 60
  end

  def test_nothing_is_printed_where_no_terminal_is
    plain = StringIO.new
    progress = Bench::Progress.new(plain)
    progress.begin(%i[a])
    progress.show("x")
    progress.clear

    assert_empty plain.string
  end

  def test_durations
    assert_equal "0:59", Bench::Progress.duration(59.2)
    assert_equal "1:05", Bench::Progress.duration(65)
    assert_equal "2:03:07", Bench::Progress.duration((2 * 3600) + 187)
  end
end
