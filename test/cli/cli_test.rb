# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require_relative "../support/program"
require_relative "../../lib/neverblock/version"

# `nb` itself: help, unknown commands, exit statuses.
class CLITest < Minitest::Test
  COMMANDS = %w[run demo bench delayd doctor iotest jobs rubyhttp help].freeze

  def test_help_lists_every_command
    [%w[help], %w[--help], %w[-h]].each do |arguments|
      out, errors, status = Program.nb(*arguments)
      COMMANDS.each { |name| assert_match(/^  #{name} +\S/, out) }
      assert_equal ["", 0], [errors, status.exitstatus]
    end
  end

  def test_every_command_has_help_of_its_own
    COMMANDS.each do |name|
      usage, = Program.nb("help", name)
      assert_match(/\A(usage: )?nb #{name}/, usage)
      [%W[#{name} --help], %W[#{name} -h]].each do |arguments|
        out, errors, status = Program.nb(*arguments)
        assert_equal [usage, "", 0], [out, errors, status.exitstatus], arguments.inspect
      end
    end
  end

  def test_no_command_is_a_wrong_command_line
    out, _, status = Program.nb
    assert_includes out, "usage: nb COMMAND"
    assert_equal 2, status.exitstatus
  end

  def test_an_unknown_command_is_named_and_the_one_meant_is_shown
    { "dealyd" => ", did you mean: nb delayd", "xyz" => "" }.each do |name, hint|
      out, errors, status = Program.nb(name)
      assert_equal "nb: unknown command #{name.inspect}#{hint}\nSee: nb help\n", errors
      assert_equal ["", 2], [out, status.exitstatus]
    end
    assert_equal 2, Program.nb("help", "xyz").last.exitstatus
  end

  def test_version
    assert_equal "#{NB::VERSION}\n", Program.nb("--version").first
  end

  def test_the_demo_can_be_ended
    assert_includes Program.nb("demo", "x")[1], "takes rails or nothing, and --out FOLDER"
    Dir.mktmpdir do |folder|
      Open3.popen3(*Program::NB, "demo", "--out", folder) do |*pipes, process|
        _, stdout, stderr = pipes
        assert_includes stdout.gets, "Measuring on ruby"
        assert_includes stderr.gets, "a3: blocking, 1,000 ms, pass 1" # the first cell runs
        Process.kill(:INT, process.pid)
        assert_equal "Page: #{folder}/index.html", stdout.read.lines.last.chomp
        assert_equal 130, process.value.exitstatus
      end
      assert_includes File.read(File.join(folder, "index.html")), "NeverBlock in a minute"
    end
  end
end
