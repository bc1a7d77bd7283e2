# frozen_string_literal: true

require_relative "helper"
require_relative "../support/leaks"

# Cells that are compared work by turns: what the machine does meanwhile meets them all.
class BenchTurnsTest < Minitest::Test
  # Writes down whose turn it is.
  class Noted < Bench::Launcher
    attr_reader :turns

    private

    def turn(cell)
      (@turns ||= []) << @cells.index(cell)
      super
    end
  end

  def table(workload, **base)
    Bench::TableBuilder.build("t9") do
      question "?"
      source article: "A", author: "B", year: 2008
      differs "-"
      axis :runtime, %w[blocking threads]
      workload workload, **base
      patience 20
    end
  end

  # @return [Array] a sample of each runtime, whose turns it was
  def measure(table, seconds, runtimes: %w[blocking threads])
    launcher = Noted.new(Bench::RubyTarget.new(yjit: false))
    samples = launcher.call(table, runtimes.map { |name| { runtime: name } }, seconds)
    [samples, launcher.turns]
  end

  def test_cells_work_by_turns_there_and_back_again
    samples, turns = measure(table("churn", jobs: 50), 1.0)

    # Each starts, then a turn lasts 0.1 s or a little more.
    assert_equal [[0, 1], [1, 0], [0, 1]], turns.first(6).each_slice(2).to_a
    samples.each do |sample|
      assert_equal 0, sample["errors"]
      assert_operator sample["elapsed"], :>=, 1.0
      assert_operator sample["elapsed"], :<=, sample["wall"] # without the turns of the other
    end
  end

  def test_a_cell_alone_works_without_a_break
    samples, turns = measure(table("churn", jobs: 50), 0.3, runtimes: %w[threads])

    assert_equal [0], turns
    assert_operator samples.first["elapsed"], :>=, 0.3
  end

  # Each read the other's line, and waited for its own forever.
  def test_processes_of_one_cell_work_without_a_break
    server = Bench::Server.start(:delayd, ruby: Bench::RubyTarget.new(yjit: false))
    samples, turns = measure(table("client_processes", processes: 2, requests: 20,
                                                       port: server.port), 0.5)

    assert_equal [0, 1], turns
    assert_equal([0, 0], samples.map { |sample| sample["errors"] })
  ensure
    server&.stop
  end

  def test_a_cell_that_fails_does_not_keep_the_others_from_their_turns
    samples, = measure(table("churn", jobs: "none"), 0.2)
    assert_equal 2, samples.count { |sample| sample["failure"] }

    mixed = table("churn", jobs: 50)
    mixed.define_singleton_method(:runtime_of) { |cell| cell[:runtime] }
    samples, = measure(mixed, 0.2, runtimes: %w[threads c])
    assert_equal [nil, true], [samples[0]["failure"], samples[1]["failure"].include?("no rival")]
  end

  def test_no_process_is_left
    launcher = Bench::Launcher.new(Bench::RubyTarget.new(yjit: false))
    row = [{ runtime: "threads" }] * 2
    before = Leaks.children
    thread = Thread.new { launcher.call(table("churn", jobs: 50), row, 60) }
    Thread.pass until (Leaks.children - before).size == 2
    thread.kill.join
    assert_empty Leaks.children - before
  end
end
