# frozen_string_literal: true

require "minitest/autorun"
require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"

# A fresh checkout, in which nobody has compiled the extension.
class UncompiledTest < Minitest::Test
  LIB = File.expand_path("../../lib", __dir__)

  def test_says_how_to_compile
    Dir.mktmpdir do |folder|
      FileUtils.cp_r(LIB, folder)
      Dir["#{folder}/lib/neverblock/*/neverblock.{so,bundle}"].each { |path| File.delete(path) }
      command = [RbConfig.ruby, "-I", "#{folder}/lib", "-e", "require 'neverblock'"]
      _, errors, status = Open3.capture3({ "GEM_HOME" => folder, "GEM_PATH" => folder }, *command)

      refute_predicate status, :success?
      assert_match(/not compiled for Ruby #{RUBY_VERSION}: run `bin\/setup --compile`/, errors)
    end
  end
end
