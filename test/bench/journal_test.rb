# frozen_string_literal: true

require_relative "helper"

class BenchJournalTest < Minitest::Test
  Step = Bench::Order::Step
  Target = Struct.new(:key, :label, :description)

  def journal
    Dir.mktmpdir do |directory|
      yield Bench::Journal.new(File.join(directory, "new"), "t1"), Target.new("3.4.5", "Ruby", "r")
    end
  end

  def step(pass) = Step.new(params: { runtime: "nb" }, pass: pass, again: false)

  def test_what_was_written_is_read_again
    journal do |file, ruby|
      file.open_session(ruby, { "cores" => 2 }, { quick: true })
      file.missing("carbon", "needs 3.4")
      file.add(step(0), { "value" => 1.5 })
      found = file.series.first

      assert_equal({ "carbon" => "needs 3.4" }, found["missing"])
      assert_equal [1.5], found["runs"].map { |run| run.number("value") }
      assert_equal({ runtime: "nb" }, found["runs"].first.params)
    end
  end

  def test_no_session_is_lost_and_those_of_a_ruby_stand_together
    journal do |file, ruby|
      file.open_session(ruby, {}, {})
      file.add(step(0), { "value" => 0 })
      file.open_session(Target.new("3.1.2", "Old", "r"), {}, {})
      file.open_session(ruby, {}, {})
      file.add(step(0), { "value" => 1 })

      assert_equal [[0], [1], []], values(file)
    end
  end

  def test_a_session_that_goes_on_makes_no_pairs_with_the_one_before
    journal do |file, ruby|
      file.open_session(ruby, {}, {})
      file.add(step(0), { "value" => 0 })
      file.open_session(ruby, {}, {}, resumes: true)
      file.add(step(0), { "value" => 1 })

      assert_equal [[0, 1]], values(file)
      assert_equal [[0, 0], [1, 0]], file.series.first["runs"].map(&:turn)
      assert_equal 2, file.series.first["sessions"].size
    end
  end

  def test_a_sample_that_was_thrown_away_is_kept_but_not_read
    journal do |file, ruby|
      file.open_session(ruby, {}, {})
      file.discard(step(0), { "value" => 0, "others" => 1.5 })
      file.add(step(0), { "value" => 1, "repeats" => 1 })

      assert_equal [[1]], values(file)
      assert_equal 1, file.series.first["runs"].first.repeats
      assert_includes File.read(file.path), '"kind":"discarded"'
    end
  end

  def values(file) = file.series.map { |found| found["runs"].map { |run| run.number("value") } }

  def test_half_a_last_line_is_no_loss_but_half_a_line_before_is
    journal do |file, ruby|
      file.open_session(ruby, {}, {})
      file.add(step(0), { "value" => 1 })
      File.write(file.path, "{\"kind\":", mode: "a")
      assert_equal 1, file.series.first["runs"].size

      File.write(file.path, "\n{}\n", mode: "a")
      assert_match(/:3 is no JSON/, assert_raises(Bench::Error) { file.series }.message)
    end
  end
end
