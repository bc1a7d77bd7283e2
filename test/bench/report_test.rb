# frozen_string_literal: true

require_relative "helper"
require "stringio"

class BenchReportTest < Minitest::Test
  include BenchHelper

  Report = Bench::Report

  def test_numbers_show_three_digits_that_count
    examples = { nil => "–", 0 => "0", 2360.4 => "2,360", 1_234_567 => "1,234,567", 415 => "415",
                 99.96 => "100", 36.88 => "36.9", 2.346 => "2.35", 0.4241 => "0.424",
                 0.01730298 => "0.0173", -12.34 => "-12.3" }
    examples.each { |value, text| assert_equal text, Report::Format.number(value) }
  end

  def test_ticks_are_short
    assert_equal %w[0 500 2k 1.5M 0.001],
                 [0, 500, 2000, 1_500_000, 0.001].map { |value| Report::Format.tick(value) }
  end

  def test_the_page_needs_nothing_else
    page = Report::Page.new([usual_result]).to_s

    refute_match(/<script|<link|<img|@import|url\(|src=/, page)
    refute_match(%r{https?://}, page)
    assert_match(/prefers-color-scheme: dark/, page)
    assert_match(/width=device-width/, page)
  end

  def test_a_page_without_claims
    assert_equal({ true => true, false => false }, [true, false].to_h do |claims|
      page = Report::Page.new([usual_result], claims: claims).to_s
      [claims, page.include?("What the articles said")]
    end)
  end

  def test_the_page_escapes_what_it_prints
    page = Report::Page.new([usual_result], title: "a & b").to_s

    assert_includes page, "Which is &lt;faster&gt;?"
    assert_includes page, "<title>a &amp; b</title>"
  end

  def test_the_page_is_written_into_a_new_directory
    Dir.mktmpdir do |directory|
      path = File.join(directory, "a", "index.html")

      assert_equal path, Report::Page.new([usual_result]).write(path)
      assert_operator File.size(path), :>, 5_000
    end
  end

  def test_the_terminal_prints_numbers_verdicts_and_cpu
    output = StringIO.new
    Report::Terminal.new(output, color: false).print([usual_result])

    assert_match(/NeverBlock\s+2,090\s+1,600\s+500/, output.string)
    assert_match(/threads, 2008\s+1,000\s+900\s+100/, output.string)
    assert_match(/50 % CPU/, output.string)
    assert_match(/threads\s+2\.0\d× faster\s+2\.00× faster\s+1\.00× same/, output.string)
    refute_match(/\e\[/, output.string)
  end

  def test_columns_that_do_not_fit_follow_below
    output = StringIO.new
    Report::Terminal.new(output, color: false, width: 40).print_grid(usual_result.grids.first)
    lines = output.string.lines.map(&:chomp)

    assert_operator lines.grep_v(/is better|intervals/).map(&:size).max, :<=, 40
    assert_equal [["2,090", "1,600"], ["500"]],
                 lines.grep(/^  NeverBlock +\d/).map { |line| line.split.drop(1) }
  end

  def test_colour_only_where_asked_for
    output = StringIO.new
    Report::Terminal.new(output, color: true).print_grid(usual_result.grids.first)

    assert_match(/\e\[32m/, output.string)
  end

  def test_markdown_holds_the_headline_with_what_was_published
    text = Report::Markdown.new([usual_result]).to_s

    assert_includes text, "| delay (req/s, higher is better) | 0 ms | 10 ms | 100 ms |"
    assert_includes text, "| **NeverBlock** | 2,090 | 1,600 | 500 |"
    assert_includes text, "| *threads, 2008* | 1,000 | 900 | 100 |"
    refute_includes text, "ideal"
    assert_includes text, "Ruby 3.4.5, 6 × 5 s)"
    assert_includes text, "\n**Rate**\n\n| delay"
  end

  def test_markdown_counts_the_samples_that_there_are
    one = result({ ["threads", 0] => [1000] * 2, ["nb", 0] => [2000] * 7 })

    assert_includes Report::Markdown.new([one]).to_s, "Ruby 3.4.5, 2 to 7 × 5 s)"
  end

  def test_markdown_names_another_machine_than_most
    results = Array.new(3) { usual_result }
    own = results.last.session
    results.last.define_singleton_method(:session) do
      own.merge("machine" => own["machine"].merge("cpu" => "one of its own"))
    end
    assert_equal ["6 × 5 s, on another machine: one of its own)"],
                 results.map { |one| Report::Markdown.new(results).send(:setting, one) }
                        .filter_map { |text| text[/6 × .*on another.*/] }
  end

  def test_markdown_says_once_how_most_tables_configure_a_program
    results = ["no log", "no log", "a log"].map do |text|
      usual_result.tap do |one|
        session = one.session.merge("settings" => { "NeverBlock" => text, "Jobs" => "one each" })
        one.define_singleton_method(:session) { session }
      end
    end
    text = Report::Markdown.new(results).to_s

    assert_equal 1, text.scan("no log").size
    assert_operator text.index("| NeverBlock | no log |\n"), :<, text.index("## T1: ")
    assert_equal ["NeverBlock: a log."], text.scan(/NeverBlock: a log\./)
    assert_equal 3, text.scan("Jobs: one each.").size # not the name of a program
  end

  def test_markdown_tells_scatter_errors_and_notes
    one = usual_result
    one.runs.first.sample.merge!("value" => 10, "errors" => 2, "notes" => ["a part of it"])

    assert_match(/\| \*\*threads\*\* \| 1,050\\\*, ±\d+ %, 2 errors \|/,
                 Report::Markdown.new([one]).to_s)
  end

  def test_markdown_puts_the_columns_of_another_headline_view_beside_the_first
    two = table
    two.views << Bench::View.new(two, "T1 twice", title: "Twice", unit: "ms", metric: "twice",
                                                  rows: :runtime, columns: :delay_ms,
                                                  headline: [10])
    text = Report::Markdown.new([result({ ["nb", 0] => [7], ["nb", 10] => [8] }, table: two)]).to_s

    assert_includes text, "| 0 ms | 10 ms | twice, ms: 10 ms |"
    assert_includes text, "| **NeverBlock** | 7.00 | 8.00 | 16.0 |"
  end

  def test_markdown_replaces_only_what_is_between_its_markers
    Dir.mktmpdir do |directory|
      path = File.join(directory, "B.md")
      File.write(path, "before\n<!-- nb bench: - -->\nold\n<!-- end of nb bench -->\nafter\n")
      2.times { Report::Markdown.update(path, [usual_result], "bench/results/x") }
      text = File.read(path)

      assert text.start_with?("before\n<!-- nb bench: bench/results/x -->\n")
      assert text.end_with?("<!-- end of nb bench -->\nafter\n")
      assert_equal 1, text.scan("## T1: A test").size
      refute_includes text, "old"
      assert_equal ["bench/results/x"], Report::Markdown.directories(path)
    end
  end

  def test_each_page_has_its_own_tables
    Dir.mktmpdir do |directory|
      paths = %w[BENCHMARKS.md COMPARISONS.md].map { |name| File.join(directory, name) }
      paths.each do |path|
        File.write(path, "<!-- nb bench: - -->\n<!-- end of nb bench -->\n")
        Report::Markdown.update(path, [usual_result], "x,y")
      end

      assert_equal [0, 1], (paths.map { |path| File.read(path).scan("## T1: A test").size })
      assert_equal %w[x y], Report::Markdown.directories(paths.last)
      assert_includes File.read(paths.last), "[T2](../bench/tables/t2.rb)"
      refute_includes File.read(paths.last), "a3.rb"
    end
  end

  def test_markdown_without_markers_is_refused
    Dir.mktmpdir do |directory|
      path = File.join(directory, "B.md")
      File.write(path, "nothing\n")
      error = assert_raises(Bench::Error) { Report::Markdown.update(path, [], "x") }

      assert_match(/needs the lines/, error.message)
    end
  end

  def test_of_what_was_measured_again_the_summary_counts_the_last
    first = result({ ["threads", 0] => [3000] * 6, ["nb", 0] => [1000] * 6,
                     ["threads", 10] => [500] * 6, ["nb", 10] => [1000] * 6 })
    second = result({ ["threads", 0] => [1000] * 6, ["nb", 0] => [1000] * 6 })
    summary = Bench::Report::Summary.new([first, second])

    assert_equal "Comparisons with others: 1 better, 1 same.", summary.line
    assert_empty summary.lost
  end

  def test_the_summary_counts_what_was_won_and_names_what_was_lost
    rates = { ["threads", 0] => [1000] * 6, ["nb", 0] => [2000] * 6,
              ["threads", 10] => [800] * 6, ["nb", 10] => [400] * 6,
              ["threads", 100] => [500] * 6, ["nb", 100] => [500] * 6 }
    summary = Bench::Report::Summary.new([result(rates)])

    assert_equal "Comparisons with others: 1 better, 1 same, 1 worse.", summary.line
    assert_equal ["T1, 10 ms: NeverBlock 0.500× of threads (Ruby 3.4.5)"], summary.lost
    [Bench::Report::Page.new([result(rates)]).to_s, Bench::Report::Markdown.new([result(rates)]).to_s]
      .each { |text| assert_includes text, summary.lost.first }
  end

  def test_a_busy_machine_is_told_and_an_idle_one_is_not
    assert_nil Bench::Report::Summary.new([usual_result]).crowd

    busy = usual_result
    busy.runs.first(3).each { |run| run.sample["others"] = 0.5 }
    assert_match(/during 3 of #{busy.runs.size} samples/, Bench::Report::Summary.new([busy]).crowd)
  end
end
