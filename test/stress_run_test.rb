# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "rbconfig"
require "tmpdir"

# `rake gc` and `rake asan` run each file once: what fails once has failed. Whatever breaks off is
# told with the test that was running.
class StressRunTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  RUN = 'require "./rakelib/stress_run"; StressRun.new("stress", {}).run(ARGV)'

  # @param body [String] of a test that finds how often it has run in `times`
  # @return [Array(Integer, String, Boolean)] how often it ran, what was printed, whether it passed
  def run_under_stress(body)
    Dir.mktmpdir do |folder|
      file = "#{folder}/once_test.rb"
      File.write(file, <<~RUBY)
        require "minitest/autorun"
        require "support/timing"
        class OnceTest < Minitest::Test
          def test_once
            File.write("#{folder}/times", "x", mode: "a")
            times = File.size("#{folder}/times")
            #{body}
          end
        end
      RUBY
      output, status = Open3.capture2e(RbConfig.ruby, "-e", RUN, file, chdir: ROOT)
      [File.size("#{folder}/times"), output, status.success?]
    end
  end

  def test_what_breaks_off_once_has_failed
    times, output, passed = run_under_stress("exit!(3) if times == 1")
    assert_equal [1, false], [times, passed]
    assert_match(/^!! .*once_test.rb: exit status 3$/, output)
  end

  # Whatever the process says of itself.
  def test_what_leaves_in_the_midst_of_its_tests_has_failed
    times, output, passed = run_under_stress("exit!(0)")
    assert_equal [1, false], [times, passed]
    assert_includes output, "OnceTest#test_once was running."
    assert_match(/^!! .*once_test.rb: exit status 0$/, output)
  end

  def test_what_crashes_once_has_failed
    times, output, passed = run_under_stress("Process.kill(:KILL, $$) if times == 1")
    assert_equal [1, false], [times, passed]
    assert_includes output, "OnceTest#test_once was running."
    assert_match(/^!! .*once_test.rb: ended by SIGKILL$/, output)
  end

  def test_only_what_comes_late_runs_again_and_is_told
    times, output, passed = run_under_stress("assert_in_time(2 - times, 1)")
    assert_equal [2, true], [times, passed]
    assert_includes output, "repeated after a timing failure: OnceTest#test_once: "
    assert_includes output, "1 runs, 1 assertions, 0 failures"
  end

  TOGETHER = 'require "./rakelib/test_files"; p TestFiles.run([ARGV])'

  def test_files_in_one_process
    Dir.mktmpdir(nil, "#{ROOT}/tmp") do |folder|
      good, bad, left = %w[true Process.kill(:KILL,$$) exit!(0)].each_with_index.map do |body, i|
        "tmp/#{File.basename(folder)}/#{i}_test.rb".tap do |file|
          File.write("#{ROOT}/#{file}", <<~RUBY)
            require "minitest/autorun"
            class Together#{i}Test < Minitest::Test
              def test_it = assert(#{body})
            end
          RUBY
        end
      end
      output, = Open3.capture2e(RbConfig.ruby, "-e", TOGETHER, good, good, chdir: ROOT)
      assert_match(/1 runs, 1 assertions.*^true$/m, output)
      output, = Open3.capture2e(RbConfig.ruby, "-e", TOGETHER, bad, chdir: ROOT)
      last = "Together1Test#test_it was running.\n\n!! together: ended by SIGKILL\nfalse"
      assert_match(/^#{Regexp.escape(last)}$/, output)
      output, = Open3.capture2e(RbConfig.ruby, "-e", TOGETHER, left, chdir: ROOT)
      last = "Together2Test#test_it was running.\n\n!! together: exit status 0\nfalse"
      assert_match(/^#{Regexp.escape(last)}$/, output)
    end
  end
end
