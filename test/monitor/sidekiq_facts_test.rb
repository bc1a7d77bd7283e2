# frozen_string_literal: true

require "minitest/autorun"
require "active_support"
require "active_support/configuration_file"
require "pathname"
require "tmpdir"
require "neverblock"
require "neverblock/monitor/doctor"
require "neverblock/monitor/doctor/sidekiq_facts"

# What the doctor reads of Sidekiq's settings.
class SidekiqFactsTest < Minitest::Test
  def test_numbers_in_the_forms_that_are_usual
    ['ENV.fetch("MANY", 7)', 'Integer(ENV.fetch("MANY", "7"))', 'Integer(ENV.fetch("MANY") { 7 })',
     "ENV.fetch('MANY') { '7' }.to_i", '(ENV["MANY"] || 7).to_i', "ENV['MANY']&.to_i || 7",
     'ENV["MANY"].presence&.to_i || 7'].each do |number|
      line = "config.concurrency = #{number} # not 99"
      assert_equal 7, facts(line).at_once, number
      assert_equal 31, facts(line, MANY: "31").at_once, number
      assert_equal 7, facts("config[:timeout] = #{number}").stop, number
    end
    assert_equal 10, facts("config.concurrency = 1_0").at_once
  end

  def test_what_is_not_understood_leaves_what_else_is_known
    assert_equal 5, facts("config.concurrency = Settings.threads").at_once
    assert_equal 8, facts("config.concurrency = ENV['MANY'].to_i", file: "concurrency: 8\n").at_once
    assert_equal 25, facts("config[:timeout] = Settings.seconds").stop
  end

  def test_flags_in_the_forms_that_are_usual
    { "true" => [true, true], "false" => [false, false], 'ENV["FIBERS"] == "1"' => [false, true],
      'ENV.fetch("FIBERS", "1") == "1"' => [true, true], 'ENV["FIBERS"]' => [false, true],
      'ENV["FIBERS"] != "1"' => [true, false], 'ENV.key?("FIBERS")' => [false, true],
      "ENV.fetch('FIBERS', 'true') == 'true'" => [true, false] }.each do |flag, expected|
      line = "config[:fibers] = #{flag}"
      assert_equal expected, [facts(line).fibers?, facts(line, FIBERS: "1").fibers?], flag
    end
    refute facts("config[:fibers] = false", file: "fibers: true\n").fibers?
    assert facts("", file: ":fibers: true\n").fibers?
  end

  # They count more than the threads.
  def test_numbers_of_fibers
    ['ENV.fetch("MANY", 70)', 'Integer(ENV.fetch("MANY", "70"))', '(ENV["MANY"] || 70).to_i',
     "70", 'ENV["MANY"] || 70'].each do |number|
      line = "config[:fibers] = #{number}"
      assert_equal [true, 70], facts(line, file: "concurrency: 8\n").to_a.first(2), number
    end
    assert_equal 71, facts("config[:fibers] = ENV['MANY']", MANY: "71").at_once
    assert_equal 72, facts("", file: "fibers: 72\nconcurrency: 8\n").at_once
    assert_equal 73, facts("", file: "fibers: '73'\n", RAILS_MAX_THREADS: "14").at_once
    assert_equal [false, 8], facts("", file: "fibers: 0\nconcurrency: 8\n").to_a.first(2)
    file = "fibers: 72\ncapsules:\n  mail:\n    concurrency: 7\n  slow:\n    queues: slow\n"
    assert_equal 151, facts("", file: file).at_once
  end

  # Sidekiq takes this number if nothing names another.
  def test_the_threads_of_rails
    assert_equal 14, facts("", RAILS_MAX_THREADS: "14").at_once
    assert_equal 8, facts("", file: "concurrency: 8\n", RAILS_MAX_THREADS: "14").at_once
    assert_equal 9, facts("config.concurrency = 9", RAILS_MAX_THREADS: "14").at_once
  end

  # Each has its number beside the first one's. That of `config[:concurrency]` comes too late.
  def test_capsules
    file = ":concurrency: 8\n:capsules:\n  mail:\n    :concurrency: 7\n"
    assert_equal 15, facts("", file: file).at_once
    lines = "config[:concurrency] = 50\n" \
            "config.capsule(:slow) { |slow| slow.concurrency = ENV.fetch('SLOW', 2).to_i }"
    assert_equal 17, facts(lines, file: file).at_once
  end

  private

  def facts(line, file: nil, **environment)
    Dir.mktmpdir do |folder|
      FileUtils.mkdir_p("#{folder}/config/initializers")
      File.write("#{folder}/config/sidekiq.yml", file) if file
      File.write("#{folder}/config/initializers/queue.rb",
                 "Sidekiq.configure_server do |config|\n#{line}\nend\n")
      values(folder, environment.transform_keys(&:to_s))
    end
  end

  Values = Struct.new(:fibers?, :at_once, :stop)

  def values(folder, environment)
    ENV.update(environment)
    facts = NB::Doctor::SidekiqFacts.new(Pathname(folder), "test")
    Values.new(facts.fibers?, facts.at_once, facts.stop)
  ensure
    environment.each_key { |name| ENV.delete(name) }
  end
end
