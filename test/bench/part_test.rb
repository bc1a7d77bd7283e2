# frozen_string_literal: true

require_relative "helper"

# What is measured next: all cells at first, then what is undecided, and nothing twice.
class BenchPartTest < Minitest::Test
  include BenchHelper

  Target = Struct.new(:key, :label, :description)
  RUBY = Target.new("3.4.5", "Ruby 3.4.5", "ruby 3.4.5")

  def part(directory, cells: table.groups, **options)
    Bench::Part.new(table, RUBY, groups: cells, journal: Bench::Journal.new(directory, "t1"),
                                 **options)
  end

  # @param rates [Hash] runtime => values, one per pass, of every delay
  # @param facts [Hash] of the session
  def write(directory, rates, commit: "abc", seconds: 5.0, passes: 6)
    journal = Bench::Journal.new(directory, "t1")
    journal.open_session(RUBY, { commit: commit }, { seconds: seconds })
    rates.each do |(runtime, delay), values|
      passes.times do |pass|
        step = Bench::Order::Step.new(params: { runtime: runtime, delay_ms: delay }, pass: pass,
                                      again: false)
        journal.add(step, { "value" => values[pass % values.size], "errors" => 0 })
      end
    end
  end

  def in_folder(&block) = Dir.mktmpdir(&block)
  def cells(blocks) = blocks.flatten.map { |step| step.params.values.join }.uniq.sort

  def test_the_first_look_takes_all_cells_of_each_group_pass_by_pass
    in_folder do |folder|
      blocks = part(folder).blocks(0...6)

      assert_equal 3, blocks.size
      assert_equal 6, blocks.first.size
      assert_equal(%w[nb threads nb], blocks.first.first.map { |step| step.params[:runtime] })
    end
  end

  def test_a_runtime_that_this_ruby_cannot_run_is_left_out
    in_folder do |folder|
      one = part(folder, missing: { "threads" => "no" })

      assert_equal %w[nb0 nb10 nb100], cells(one.blocks(0...1))
    end
  end

  # At 0 ms the pairs agree; at 10 ms they say twice as fast and half as fast; 100 ms is the same.
  def test_a_later_look_takes_only_what_is_undecided
    in_folder do |folder|
      write(folder, { ["nb", 0] => [200], ["threads", 0] => [100], ["nb", 10] => [100],
                      ["threads", 10] => [200, 50], ["nb", 100] => [7], ["threads", 100] => [7] })
      blocks = part(folder).blocks(6...12)

      assert_equal %w[nb10 threads10], cells(blocks)
      assert_equal [*6...12], blocks.first.map { |row| row.first.pass }
    end
  end

  def test_what_was_measured_is_not_measured_again
    in_folder do |folder|
      write(folder, { ["nb", 0] => [1], ["threads", 0] => [1] }, passes: 4)
      one = part(folder)

      assert_nil one.resume(commit: "abc", seconds: 5.0)
      assert_predicate one, :resumed?
      # The noise floor was not measured; without it four passes of this group are done.
      blocks = one.blocks(0...6, again: false)
      assert_equal [2, 6, 6], blocks.map(&:size)
      assert_equal [4, 5], blocks.first.map { |row| row.first.pass }
      assert_equal [6, 6, 6], one.blocks(0...6).map(&:size)
    end
  end

  def test_half_a_pass_is_measured_again_for_pairs_stand_beside_each_other
    in_folder do |folder|
      write(folder, { ["nb", 0] => [1] }, passes: 1)
      one = part(folder)
      one.resume(commit: "abc", seconds: 5.0)

      assert_equal %w[nb0 threads0], cells([one.blocks(0...1, again: false).first])
    end
  end

  def test_what_another_source_or_length_gave_is_not_gone_on_with
    in_folder do |folder|
      assert_equal "nothing is there yet", part(folder).resume(commit: "abc", seconds: 5.0)
      write(folder, { ["nb", 0] => [1] })
      one = part(folder)

      assert_equal "what is there was measured at commit abc with samples of 5.0 s, not at def " \
                   "with 5.0 s", one.resume(commit: "def", seconds: 5.0)
      refute_predicate one, :resumed?
      assert_match(/not at abc with 1.0 s/, one.resume(commit: "abc", seconds: 1.0))
    end
  end
end
