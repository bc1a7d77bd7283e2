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
      found = file.sessions.first

      assert_equal({ "carbon" => "needs 3.4" }, found["missing"])
      assert_equal [1.5], found["runs"].map { |run| run.number("value") }
      assert_equal({ runtime: "nb" }, found["runs"].first.params)
    end
  end

  def test_a_later_session_of_the_same_ruby_replaces_the_earlier
    journal do |file, ruby|
      2.times do |turn|
        file.open_session(ruby, {}, {})
        file.add(step(0), { "value" => turn })
      end
      file.open_session(Target.new("3.1.2", "Old", "r"), {}, {})

      values = file.sessions.map { |found| found["runs"].map { |run| run.number("value") } }

      assert_equal [[1], []], values
    end
  end

  def test_half_a_last_line_is_no_loss_but_half_a_line_before_is
    journal do |file, ruby|
      file.open_session(ruby, {}, {})
      file.add(step(0), { "value" => 1 })
      File.write(file.path, "{\"kind\":", mode: "a")
      assert_equal 1, file.sessions.first["runs"].size

      File.write(file.path, "\n{}\n", mode: "a")
      assert_match(/:3 is no JSON/, assert_raises(Bench::Error) { file.sessions }.message)
    end
  end
end
