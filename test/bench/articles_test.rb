# frozen_string_literal: true

require_relative "helper"
require_relative "../support/databases"
require_relative "../support/program"
require_relative "../../bench/frame/workload"
require_relative "../../bench/workloads/pg_mix"

# Cells of C6, F1 and F3 beyond the numbers that the articles have.
class BenchArticlesTest < Minitest::Test
  include BenchHelper

  SHORT = { long: 1, mult: 3, connections: 2, workers: 4 }.freeze

  %w[blocking nb].product(["disk", "pool_first", "pool_after", 1]).each do |runtime, beside|
    define_method("test_queries_of_#{runtime}_beside_#{beside}") do
      sample = c6(runtime, beside)

      assert_equal [nil, 0], sample.values_at("failure", "errors"), sample.inspect
      assert_operator sample["value"], :>, 0
      assert_empty files_left
    end
  end

  def test_something_beside_that_is_unknown
    assert_match(/hogs: a number or disk, pool_first, pool_after, got: rdoc/,
                 c6("nb", "rdoc")["failure"])
  end

  def test_the_process_beside_makes_the_disk_write
    Tempfile.create("hog", File.join(Bench::ROOT, "tmp")) do |file|
      pid = spawn(RbConfig.ruby, "-e", Bench::Workloads::PgMix::DISK_HOG, out: file)
      facts = -> { File.read("/proc/#{pid}/io").scan(/^(\w+): (\d+)/).to_h }
      sleep 0.01 until facts.call["wchar"].to_i > 20 << 20 # all of it, and again

      assert_operator facts.call["write_bytes"].to_i, :>=, 1 << 20
      assert_equal 16 << 20, file.size
    ensure
      Process.kill(:KILL, pid) && Process.wait(pid) if pid
    end
  end

  # Ten runs up to 5,000,000 numbers, fewer of more.
  def test_a_sum_that_takes_long_is_run_less_often
    runs = { 1_000 => 4, 5_000_001 => 2 }.map do |iterations, count|
      sample = cell("f1", { runtime: "threads", workers: 2, iterations: iterations, runs: 4 })
      assert_equal [nil, 0], sample.values_at("failure", "errors"), sample.inspect
      [count, sample["operations"]]
    end
    runs.each { |expected, found| assert_equal expected, found }
  end

  def test_each_worker_fetches_once_at_least
    Program.delayd do |port|
      { 5 => 20, 30 => 30 }.each do |workers, fetches|
        sample = cell("f3", { runtime: "nb", workers: workers, delay_ms: 1, fetches: 20 },
                      port: port)
        assert_equal [nil, 0, fetches], sample.values_at("failure", "errors", "operations")
      end
    end
  end

  private

  # A cell that runs at this moment, perhaps on another Ruby, may not have unlinked its own yet.
  def files_left
    Dir[File.join(Bench::ROOT, "tmp", "disk-*")].reject do |name|
      Dir.exist?("/proc/#{name[/\d+\z/]}")
    end
  end

  def c6(runtime, beside)
    Databases.there?(:postgresql) || missing("PostgreSQL")
    cell("c6", { runtime: runtime, hogs: beside, **SHORT }, port: Databases.postgresql.port)
  end
end
