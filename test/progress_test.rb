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

  Run = Struct.new(:name, :log, :seconds)

  def progress(out, *names)
    Tempfile.create do |log|
      log.write(LOG)
      log.flush
      progress = Progress.new(out: out)
      progress.show(names.map { |name| Run.new(name, log.path, 2.5) })
      progress.clear
    end
  end

  # @return [String] the line
  def shown(columns, *names)
    PTY.open do |reader, writer|
      writer.winsize = [24, columns]
      progress(writer, *names)
      first, line = Array.new(2) { reader.gets("\e[K") }
      assert_equal "\r\e[K", first
      line.delete_suffix("\r\e[K")
    end
  end

  def test_a_terminal_shows_what_has_passed_and_the_last_file
    assert_equal "unit 3.4.5       6 passed, 1 failed (2 s)  test/b", shown(50, "unit 3.4.5")
  end

  def test_a_terminal_shows_what_runs_side_by_side
    assert_equal "c 3.1.2: 6 passed, 1 failed (2 s) | unit 3.4.5: 6 passed, 1 failed (2 s)",
                 shown(80, "c 3.1.2", "unit 3.4.5")
  end

  def test_a_pipe_shows_nothing
    out = StringIO.new
    progress(out, "unit 3.4.5")
    assert_empty out.string
  end
end
