# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require_relative "../rubies"

module Others
  # The gems that suites of other projects need: those of our own tests, and a few more.
  module TestGems
    RUBY = Rubies::Found.new(RbConfig.ruby, RUBY_VERSION)
    # What installs in these versions on this Ruby, and is no dependency of our own tests.
    MORE = {
      "3.1" => %w[minitest-global_expectations:1.0.2 timecop:0.9.10],
      "3.4" => %w[minitest-global_expectations:1.0.2 maxitest:6.1.0 minitest-memory:1.1.1
                  minitest-strict:1.0.1 timecop:0.9.10]
    }.freeze

    module_function

    # @return [Hash] for a process that uses them
    def environment
      install unless File.exist?("#{folder}/.complete")
      RUBY.environment.merge("GEM_HOME" => folder, "GEM_PATH" => "#{folder}:#{of_project}")
    end

    # @return [String] the folder of our own tests' gems, which bin/setup has installed
    def of_project = RUBY.gems

    def folder = File.expand_path("tmp/others/gems-#{RUBY.api}")

    def install
      FileUtils.mkdir_p(folder)
      system(RUBY.environment.merge("GEM_HOME" => folder, "GEM_PATH" => "#{folder}:#{of_project}"),
             RbConfig.ruby, "-S", "gem", "install", "--quiet", "--no-document", "--conservative",
             *MORE.fetch(RUBY.api), exception: true)
      FileUtils.touch("#{folder}/.complete")
    end
  end
end
