# frozen_string_literal: true

require "minitest/autorun"
require "tempfile"
require_relative "../rakelib/test_files"

# How `bin/test` tells a process that hangs from one that is slow.
class TestFilesTest < Minitest::Test
  # Goes on for some limits of time. In those that are named, a test ends.
  Slow = Struct.new(:current, :limits, :ends) do
    def wait(seconds)
      raise "waits for #{seconds} s" unless seconds == TestFiles::LIMIT

      passed = self.passed += 1
      File.utime(passed, passed, current.path) if ends.include?(passed)
      :ended if passed > limits
    end

    def passed = @passed ||= 0
    attr_writer :passed
  end

  def status(limits, ends)
    Tempfile.create { |current| TestFiles.status_of(Slow.new(current, limits, ends), current) }
  end

  def test_a_process_whose_tests_end_may_take_any_time
    assert_equal :ended, status(0, [])
    assert_equal :ended, status(20, 1..20)
  end

  def test_a_process_in_which_no_test_ends_hangs
    assert_nil status(20, [])
    assert_nil status(20, [1, 2, 3])
    assert_nil status(20, [1, 3])
  end

  # Such as one whose tests are defined under a condition.
  def test_a_file_without_tests_has_failed
    Tempfile.create(%w[none .rb]) do |file|
      File.write(file, 'require "minitest/autorun"; Class.new(Minitest::Test)')
      out, = capture_subprocess_io { refute TestFiles.run([file.path]) }
      assert_includes out, "!! #{file.path}: has no test\n"
    end
    out, err = capture_io { assert_raises(SystemExit) { TestFiles.run([]) } }
    assert_equal ["", "there is no test file to run\n"], [out, err]
  end
end
