# frozen_string_literal: true

require "io/console"
require "minitest/autorun"
require "pty"
require "neverblock/cli/terminal"
require_relative "../support/program"

# What the commands write to a terminal, to one that can do little, and to a file.
class TerminalTest < Minitest::Test
  Terminal = NB::CLI::Terminal

  def with(variables)
    before = ENV.to_h.slice("TERM", "NO_COLOR")
    ENV.update("TERM" => "xterm", "NO_COLOR" => nil, **variables)
    yield
  ensure
    ENV.update("TERM" => before["TERM"], "NO_COLOR" => before["NO_COLOR"])
  end

  def test_a_terminal
    PTY.open do |_, terminal|
      terminal.winsize = [24, 61]
      with({}) { assert_equal [true, true, 61], look(terminal) }
      with("NO_COLOR" => "1") { assert_equal [true, false, 61], look(terminal) }
      with("NO_COLOR" => "") { assert_equal [true, true, 61], look(terminal) }
      with("TERM" => "dumb") { assert_equal [false, false, 61], look(terminal) }
    end
  end

  def test_a_terminal_that_does_not_know_its_width
    PTY.open { |_, terminal| assert_equal 80, Terminal.width(terminal) }
  end

  def test_a_file
    File.open(File::NULL, "w") do |file|
      assert_equal [false, false, 80], look(file)
      assert_equal 110, Terminal.width(file, unknown: 110)
    end
  end

  # The commands that colour ask all the same question.
  def test_doctor_without_colors
    assert_includes shown("TERM" => "xterm", "NO_COLOR" => nil), "\e["
    refute_includes shown("TERM" => "xterm", "NO_COLOR" => "1"), "\e["
    refute_includes shown("TERM" => "dumb", "NO_COLOR" => nil), "\e["
  end

  private

  def look(io) = [Terminal.live?(io), Terminal.colors?(io), Terminal.width(io)]

  def shown(variables)
    PTY.spawn(variables, *Program::NB, "doctor", "--no-boot") do |output, _, pid|
      text = +""
      loop { text << output.readpartial(65_536) }
    rescue Errno::EIO, EOFError
      return text
    ensure
      Process.wait(pid)
    end
  end
end
