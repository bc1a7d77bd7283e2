# frozen_string_literal: true

require "minitest/autorun"
require "pty"
require "stringio"
require "tempfile"
require_relative "../rakelib/progress"

# The line that tells how far `bin/test` is.
class ProgressTest < Minitest::Test
  LOG = <<~LOG
    == test/a_test.rb (1.2 s)
    5 runs, 9 assertions, 1 failures, 0 errors, 0 skips
    == test/b_test.rb (0.1 s)
    3 runs, 3 assertions, 0 failures, 0 errors, 1 skips
  LOG

  def progress(out)
    Tempfile.create do |log|
      log.write(LOG)
      log.flush
      progress = Progress.new("unit 3.4.5", log.path, out: out)
      progress.show
      progress.clear
    end
  end

  def test_a_terminal_shows_what_has_passed_and_the_last_file
    PTY.open do |reader, writer|
      writer.winsize = [24, 50]
      progress(writer)
      shown = Array.new(2) { reader.gets("\e[K") }
      assert_equal "\r\e[K", shown.first
      assert_match(/\Aunit 3.4.5       6 passed, 1 failed \(\d+ s\)  test.b\r\e\[K\z/, shown.last)
    end
  end

  def test_a_pipe_shows_nothing
    out = StringIO.new
    progress(out)
    assert_empty out.string
  end
end
