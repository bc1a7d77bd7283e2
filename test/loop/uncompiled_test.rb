# frozen_string_literal: true

require "minitest/autorun"
require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"

# A fresh checkout, in which nobody has compiled the extension.
class UncompiledTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  TEXT = /not compiled for Ruby #{RUBY_VERSION}: run `bin\/setup --compile`/
  COMMANDS = [%w[run -e 1], %w[serve], %w[jobs], %w[iotest],
              %w[profile -e 1]].freeze

  def setup
    @folder = Dir.mktmpdir
    Dir["{lib,exe}/**/*", base: ROOT].each do |path|
      next if File.directory?("#{ROOT}/#{path}") || path.match?(/\.(so|bundle)\b/)

      FileUtils.mkdir_p(File.dirname("#{@folder}/#{path}"))
      FileUtils.cp("#{ROOT}/#{path}", "#{@folder}/#{path}")
    end
  end

  def teardown = FileUtils.rm_rf(@folder)

  def ruby(*words)
    environment = { "GEM_HOME" => @folder, "GEM_PATH" => @folder }
    Open3.capture3(environment, RbConfig.ruby, *words, chdir: @folder).drop(1)
  end

  def test_says_how_to_compile
    errors, status = ruby("-I", "#{@folder}/lib", "-e", "require 'neverblock'")
    refute_predicate status, :success?
    assert_match TEXT, errors
  end

  def test_commands_say_it_in_one_sentence
    COMMANDS.each do |words|
      errors, status = ruby("#{@folder}/exe/nb", *words)
      assert_match(/\Anb #{words.first}: NeverBlock's C extension is #{TEXT}.*\n\z/, errors)
      assert_equal 1, status.exitstatus
    end
  end
end
