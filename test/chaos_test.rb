# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "rbconfig"
require "tmpdir"
require_relative "../rakelib/suite_result"

# `rake chaos` says how far it is, what has failed in which way, and how to replay it.
class ChaosTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  RUN = <<~'RUBY'
    require "./rakelib/chaos"
    limit = Integer(ARGV.shift)
    jobs = ARGV.map.with_index(1) { |file, seed| Chaos::Job.new(seed, [file]) }
    exit Chaos.new(jobs, limit: limit).run(at_once: 1)
  RUBY

  # @param bodies [Array<String>] of a test in a file each
  # @return [Array(String, Boolean)] what was printed, without the folder, and whether all passed
  def run_chaos(*bodies, limit: 600)
    Dir.mktmpdir do |folder|
      files = bodies.map.with_index do |body, i|
        "#{folder}/#{i}_test.rb".tap do |file|
          File.write(file, <<~RUBY)
            require "minitest/autorun"
            class OneTest < Minitest::Test
              def test_one = (#{body})
            end
          RUBY
        end
      end
      output, status = Open3.capture2e(RbConfig.ruby, "-e", RUN, limit.to_s, *files, chdir: ROOT)
      [output.gsub("#{folder}/", ""), status.success?]
    end
  end

  def test_each_end_is_told_as_it_comes
    output, passed = run_chaos("assert true", 'assert_equal "2", ENV["NB_CHAOS"]')
    assert passed, output
    assert_match(/\A1 of 2: seed 1, 0_test.rb: passed \(\d+ s\)$/, output)
    assert_match(/^2 of 2: seed 2, 1_test.rb: passed /, output)
    assert_match(/^2 tests and 0 crossings in \d+ s\n2 passed, 0 failed\n\z/, output)
    assert_equal [2, 0, 0], SuiteResult.count(output)
  end

  def test_what_fails_is_told_with_its_seed_and_its_end
    output, passed = run_chaos('flunk "oops"', "Process.kill(:KILL, $$) && sleep", "assert true")
    refute passed
    assert_includes output, "oops"
    assert_match(/^1 of 3: seed 1, 0_test.rb: failed /, output)
    assert_match(/^2 of 3: seed 2, 1_test.rb: ended by SIGKILL /, output)
    replays = (1..2).map do |i|
      "to replay: NB_CHAOS=#{i} ruby -Ilib -Itest #{i - 1}_test.rb --seed #{i}\n"
    end
    assert output.end_with?("#{replays.join}1 passed, 2 failed\n"), output
  end

  # Whatever the process says of itself.
  def test_what_leaves_in_the_midst_of_its_tests_has_failed
    output, passed = run_chaos("exit!(0)")
    refute passed
    assert_match(/^1 of 1: seed 1, 0_test.rb: broke off /, output)
    assert output.end_with?("0 passed, 1 failed\n"), output
  end

  def test_what_hangs_is_ended
    output, passed = run_chaos("sleep", limit: 1)
    refute passed
    assert_match(/^1 of 1: seed 1, 0_test.rb: still running after 1 s /, output)
  end
end
