# frozen_string_literal: true

require_relative "helper"

# A claim of the articles holds, or does not, by its samples alone.
class BenchClaimsTest < Minitest::Test
  include BenchHelper

  Claim = Bench::Claim
  ALL = Bench::Claims::ALL.values.flatten
  NB = { runtime: "nb", delay_ms: 10 }.freeze

  # A claim over the table of the helper.
  def answer(result, test)
    Claim.new("A5", "said", test).answer([result])
  end

  def ratio(over: nil, **bound)
    Claim::Ratio.new(table: "t1", subject: NB, rival: NB.merge(runtime: "threads"), over: over,
                     metric: "value", better: :higher, bound: bound)
  end

  def amount(samples: 6, **bound)
    Claim::Amount.new(table: "t1", cell: NB, metric: "value", unit: "req/s", samples: samples,
                      bound: bound)
  end

  def rates(own, other)
    result({ ["nb", 10] => own, ["threads", 10] => other })
  end

  def test_a_ratio_decides_with_its_whole_interval
    twice = rates([200, 210, 190, 205, 202, 204], [100] * 6)

    assert_equal %i[holds changed open changed holds],
                 [{ least: 1.5 }, { least: 2.5 }, { least: 2.0 }, { most: 1.5 }, { most: 2.2 }]
                   .map { |bound| answer(twice, ratio(**bound)).verdict }
  end

  def test_it_says_what_was_compared_and_with_which_bound
    twice = rates([200] * 6, [100] * 6)

    assert_equal "NeverBlock against threads: 2.00×; it holds from 1.50× on",
                 answer(twice, ratio(least: 1.5)).text
  end

  def test_five_pairs_decide_nothing
    found = answer(rates([200] * 5, [100] * 5), ratio(least: 1.5))

    assert_equal :open, found.verdict
    assert_match(/\. No verdict: 5 pairs of 6\z/, found.text)
  end

  def test_one_column_that_is_over_ends_the_claim_and_one_that_is_not_measured_leaves_it_open
    both = usual_result # 2 times at 0 and 10 ms, once at 100 ms

    assert_equal :holds, answer(both, ratio(least: 1.5, over: { delay_ms: [0, 10] })).verdict
    assert_equal :changed, answer(both, ratio(least: 1.5, over: { delay_ms: [10, 100] })).verdict
    assert_equal :open, answer(rates([200] * 6, [100] * 6),
                               ratio(least: 1.5, over: { delay_ms: [10, 100] })).verdict
  end

  def test_wrong_answers_give_no_verdict
    wrong = rates([200] * 6, [100] * 6)
    wrong.runs.first.sample["errors"] = 1

    assert_equal [:open, true], answer(wrong, ratio(least: 1.5)).then { |found|
      [found.verdict, found.text.end_with?("No verdict: there were errors")]
    }
  end

  def test_an_amount_decides_by_its_samples
    six = rates([200, 210, 190, 205, 202, 204], [])

    assert_equal %i[holds changed open], [150, 250, 200].map { |limit|
      answer(six, amount(least: limit)).verdict
    }
    assert_equal :open, answer(rates([200] * 5, []), amount(least: 150)).verdict
    assert_equal :holds, answer(rates([200], []), amount(least: 150, samples: 1)).verdict
  end

  def test_a_table_without_samples_is_not_measured
    assert_equal %i[open], Bench::Claims::ALL.values.flatten.filter_map { |claim|
      claim.answer([]).verdict unless claim.test.is_a?(Claim::Stated)
    }.uniq
  end

  def test_each_claim_belongs_to_a_row
    assert_operator ALL.size, :>=, 25
    assert_empty ALL.map(&:row) - Bench::ROWS.values.flatten.map(&:id)
  end

  # A misspelt value would stay "not measured" forever.
  def test_each_claim_asks_for_cells_that_its_table_has
    ALL.each do |claim|
      test = claim.test
      next if test.is_a?(Claim::Stated)

      cells(test).each do |cell|
        cells = Bench.tables.fetch(test.table).groups.flatten
        assert(cells.any? { |one| one == cell }, "#{claim.quote}: #{cell}")
      end
    end
  end

  def test_each_stated_reason_stands_on_a_page_of_the_documentation
    ALL.filter_map { |claim| claim.test.page if claim.test.is_a?(Claim::Stated) }.each do |page|
      assert_path_exists File.join(Bench::ROOT, "docs", page[/[^#]+/])
    end
  end

  def test_the_page_has_every_claim_and_a_button_for_each_verdict_and_study
    page = Bench::Report::Page.new([usual_result]).to_s

    assert_equal ALL.size, page.scan("<b class=\"verdict\">").size
    buttons = page.scan(/<input type="radio"[^>]* id="((?:verdict|study)-\w+)"/).flatten
    assert_equal 10, buttons.size
    (buttons - %w[verdict-all study-all]).each do |id|
      shown = id.delete_prefix("verdict-").delete_prefix("study-")
      assert_includes page, "#claims:has(##{id}:checked) .claims li:not(.#{shown})"
    end
  end

  def test_a_page_in_the_tree_links_to_the_documentation_and_one_elsewhere_names_it
    path = File.join(Bench::ROOT, "tmp", "claims-test-#{Process.pid}", "index.html")
    inside = File.read(Bench::Report::Page.new([usual_result]).write(path))

    assert_includes inside, "<a href=\"../../docs/RAILS.md\">RAILS.md</a>"
    assert_path_exists File.expand_path("../../docs/RAILS.md", File.dirname(path))
    refute_includes Bench::Report::Page.new([usual_result]).to_s, "href=\"../"
  ensure
    FileUtils.rm_rf(File.dirname(path))
  end

  private

  def cells(test)
    axis, values = test.over&.first
    columns = axis ? values.map { |value| { axis => value } } : [{}]
    own = test.is_a?(Claim::Ratio) ? [test.subject, test.rival] : [test.cell]
    own.product(columns).map { |cell, column| cell.merge(column) }
  end
end
