# frozen_string_literal: true

require_relative "helper"

class BenchSvgTest < Minitest::Test
  include BenchHelper

  Report = Bench::Report

  Element = Struct.new(:name, :attributes, :text) do
    def [](name) = attributes[name]
    def number(name) = Float(attributes.fetch(name))
  end

  # Our pictures are flat: one element after the other, no two levels but tooltips.
  def parse(svg)
    text = svg.to_s
    assert_equal text.scan(%r{<[a-z]+[^>]*[^/]>}).size, text.scan(%r{</[a-z]+>}).size

    text.scan(%r{<([a-z]+)((?: [-a-z0-9A-Z]+="[^"]*")*)/?>([^<]*)}).map do |name, attributes, inner|
      pairs = attributes.scan(/ ([-\w]+)="([^"]*)"/).to_h { |key, value| [key, unescape(value)] }
      Element.new(name, pairs, unescape(inner))
    end
  end

  def unescape(text)
    text.gsub(/&(amp|lt|gt|quot|#39);/, "&amp;" => "&", "&lt;" => "<", "&gt;" => ">",
                                        "&quot;" => '"', "&#39;" => "'")
  end

  def all(elements, name) = elements.select { |element| element.name == name }

  def test_text_and_labels_are_escaped
    svg = Report::Svg.new(100, 50, label: "a < b & \"c\"")
    svg.text(1, 2, "<x>")

    assert_equal "<x>", all(parse(svg), "text").first.text
    assert_equal "a < b & \"c\"", parse(svg).first["aria-label"]
    assert_includes svg.to_s, "&lt;x&gt;"
  end

  def test_a_linear_scale_starts_at_zero_and_has_round_ticks
    scale = Report::Scale.for([3, 87], from: 0, to: 100)

    assert_equal [0, 20, 40, 60, 80, 100], scale.ticks
    assert_in_delta 50, scale.at(50), 1e-9
    assert_in_delta 0, scale.at(-5), 1e-9
  end

  def test_a_scale_below_zero_and_of_nothing
    assert_equal [-40, -20, 0, 20, 40, 60, 80], Report::Scale.for([-30, 80], from: 0, to: 100).ticks
    assert_equal 0, Report::Scale.for([], from: 0, to: 10).ticks.first
  end

  def test_small_numbers_have_ticks_without_rounding_dust
    assert_equal [0.0, 0.005, 0.01, 0.015, 0.02], Report::Scale.for([0.0174], from: 0, to: 1).ticks
  end

  def test_a_log_scale_has_powers_of_ten
    scale = Report::Scale.for([0.02, 450], from: 0, to: 500, log: true)

    assert_equal [0.01, 0.1, 1, 10, 100, 1000], scale.ticks
    assert_in_delta 200, scale.at(1), 1e-9
    assert_in_delta 0, scale.at(0), 1e-9
  end

  def test_bars_have_a_bar_per_figure_and_whiskers_for_ranges
    elements = parse(Report::Bars.new(usual_result.grids.first, width: 720).svg)
    bars = all(elements, "rect")

    assert_equal 12, bars.size
    assert_equal 3, bars.count { |bar| bar["class"].include?("published") }
    # Two cells of the first column vary; a whisker is a line and two ends.
    assert_equal 6, all(elements, "line").count { |line| line["class"] == "whisker" }
  end

  def test_longer_bars_for_larger_values
    grid = usual_result.grids.first
    bars = all(parse(Report::Bars.new(grid, width: 720).svg), "rect").first(2)
    threads, never_block = bars.map { |bar| bar.number("width") }

    assert_in_delta 2090 / 1050.0, never_block / threads, 0.01
  end

  def test_nothing_lies_outside_the_picture
    grid = usual_result.grids.first
    [340, 720].each do |width|
      [Report::Bars, Report::Lines].each do |chart|
        elements = parse(chart.new(grid, width: width).svg)
        edges = all(elements, "text").map { |text| edge(text) }

        assert_operator edges.map(&:first).min, :>=, 0, "#{chart} #{width}"
        assert_operator edges.map(&:last).max, :<=, width, "#{chart} #{width}"
        assert_operator all(elements, "text").map { |text| text.number("y") }.max, :<=,
                        elements.first.number("height")
      end
    end
  end

  def test_axis_labels_of_a_line_chart_do_not_touch
    elements = parse(Report::Lines.new(usual_result.grids.first, width: 340).svg)
    labels = all(elements, "text").select { |text| text.text.end_with?(" ms") }.map { |t| edge(t) }

    labels.each_cons(2) { |left, right| assert_operator left.last, :<=, right.first }
  end

  def test_lines_draw_published_values_beside_ours
    elements = parse(Report::Lines.new(usual_result.grids.first, width: 720).svg)
    styles = all(elements, "polyline").map { |line| line["class"] }

    assert_equal ["line k-limit limit", "line k-threads published", "line k-threads measured",
                  "line k-nb measured"], styles
  end

  private

  def edge(text)
    width = Report::Svg.text_width(text.text, size: 11)
    x = text.number("x")
    case text["text-anchor"]
    when "middle" then [x - (width / 2), x + (width / 2)]
    when "end" then [x - width, x]
    else [x, x + width]
    end
  end
end
