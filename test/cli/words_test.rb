# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require "neverblock"
require_relative "../support/program"

# Words and variables of the environment that the commands cannot take.
class WordsTest < Minitest::Test
  TCP = "tcp://127.0.0.1:0"
  VARIABLES = {
    "NB_BACKEND" => /backend: must be one of #{NB::Native.backends.join(", ")}/,
    "NB_REPAIRS" => /NB_REPAIRS: must be 1/,
    "NB_WATCHDOG" => /NB_WATCHDOG: must be 1/,
    "NB_DRIVERS" => /NB_DRIVERS: must be 0/
  }.freeze
  COMMANDS = [%w[run -e 1], ["serve", "-b", TCP], %w[iotest -s -d -l 1k], %w[rubyhttp -l 1]].freeze
  LOCALES = %w[C C.UTF-8].freeze

  def setup
    @folder = Dir.mktmpdir
    File.write(File.join(@folder, "config.ru"), "run ->(_) { [200, {}, []] }\n")
  end

  def teardown = FileUtils.rm_rf(@folder)

  def run_with(environment, *words)
    Open3.capture3(environment, *Program::NB, *words, chdir: @folder)
  end

  # Nothing runs.
  def test_variables_of_the_environment
    VARIABLES.to_a.product(COMMANDS).each do |(name, text), words|
      out, errors, status = run_with({ name => "none" }, *words)
      assert_match(/\Anb #{words.first}: #{text}.*\nSee: .*\n\z/, errors)
      assert_equal ["", 2], [out, status.exitstatus]
    end
  end

  def test_a_script_with_an_umlaut_gets_its_arguments_byte_by_byte
    File.write(File.join(@folder, "\u00e9.rb"), "p __FILE__.bytes, ARGV[0].bytes")
    LOCALES.each do |locale|
      out, errors, = run_with({ "LC_ALL" => locale }, "run", "\u00e9.rb", "\xff")
      assert_equal ["[195, 169, 46, 114, 98]\n[255]\n", ""], [out, errors]
    end
  end

  def test_an_option_with_an_umlaut
    LOCALES.each do |locale|
      out, errors, = run_with({ "LC_ALL" => locale }, "run", "-I\u00e9", "-e", "p ARGV[0].b",
        "--", "-I\u00e9")
      assert_equal ["\"-I\\xC3\\xA9\"\n", ""], [out, errors]
    end
  end

  def test_a_file_with_an_umlaut_that_is_not_there
    LOCALES.each do |locale|
      _, errors, status = run_with({ "LC_ALL" => locale }, "serve", "\u00e9.ru")
      assert_equal "nb serve: no such file: \u00e9.ru\nSee: nb help serve\n".b, errors.b
      assert_equal 2, status.exitstatus
    end
  end

  def test_bytes_that_are_no_text
    LOCALES.each do |locale|
      _, errors, status = run_with({ "LC_ALL" => locale }, "delayd", "--bind", "\xff")
      assert_equal "nb delayd: not valid UTF-8: \"\\xFF\"\nSee: nb help delayd\n", errors
      assert_equal 2, status.exitstatus
    end
  end

  def test_doctor_in_a_folder_with_an_umlaut
    Dir.mkdir(File.join(@folder, "\u00e9"))
    LOCALES.each do |locale|
      out, = run_with({ "LC_ALL" => locale }, "doctor", "--json", "--no-boot", "\u00e9")
      assert_includes out.b, "/\u00e9\",".b
    end
  end
end
