# frozen_string_literal: true

require "fileutils"

module Others
  # For {Surroundings}: what is changed in the files of suites that need nothing else.
  module Edits
    private

    # Tests that would find the project's own files first, which nobody has compiled.
    def installed
      FileUtils.rm_rf("#{@folder}/lib")
      {}
    end

    # Tests written for a Rack whose handlers take their options as a Hash.
    def old_handler
      Dir["#{@folder}/spec/support/*server.rb"].each do |file|
        File.write(file, File.read(file).sub(/(Handler::\w+\.run\(.+?, )(?=[{o])/, "\\1**"))
      end
      {}
    end

    def patron = installed.merge(old_handler)

    # Bundler would have loaded it.
    def simplecov
      change("spec/spec_helper.rb", /^Bundler\.require.*/, "require \"simplecov\"")
      {}
    end

    # Nobody lints.
    def no_rubocop
      change("test/test_helper.rb", /^require_relative "helpers.rubocop_helper"/, "")
      { "ENV" => "test" }
    end

    # Nobody has Selenium.
    def capybara
      change("spec/spec_helper.rb", /^.*(require .selenium_|SeleniumStatistics).*$/, "")
      {}
    end

    # Bundler would have loaded them.
    def grape
      change("spec/spec_helper.rb", /^Bundler\.require.*/,
             %w[grape rack/test rack/contrib].map { |name| "require \"#{name}\"\n" }.join)
      {}
    end

    # Where a loop runs, it is the scheduler that the tests of GraphQL Ruby ask for.
    def graphql
      %w[dataloader dataloader/nonblocking_dataloader].each do |name|
        file = "#{@folder}/spec/graphql/#{name}_spec.rb"
        File.write(file, File.read(file).gsub(/Fiber\.set_scheduler\(.*\)$/,
                                              "\\0 unless Fiber.current_scheduler"))
      end
      {}
    end

    # The names of its tests have numbers, in an order that changes.
    def semantic_logger
      change("test/logger_test.rb", "constants.each", "constants.sort.each")
      {}
    end

    # Nobody talks through toxiproxy.
    def semian
      change("test/test_helper.rb", /^Toxiproxy\.(reset|populate\(.*?^\]\))$/m, "")
      installed
    end

    # Its Rakefile loads the helper.
    def request_store
      change("test/*_test.rb", /\A(?!require_relative)/, "require_relative \"test_helper\"\n")
      {}
    end

    # Most of parallel's tests are programs, which are to run where the tests run. Some count the
    # processes of the whole machine, also those that have ended: if a thread is killed while it
    # reaps a child, process 1 reaps that, some time later. Here they count their own that run.
    def parallel
      change("spec/parallel_spec.rb", "`ps`", "`pgrep -g 0 -r D,R,S`")
      change("spec/cases/helper.rb", "require 'bundler/setup'", "")
      change("spec/spec_helper.rb", "\#{RbConfig.ruby} \#{cmd}",
             "\#{RbConfig.ruby} -Ilib -r#{__dir__}/inside_program \#{cmd}")
      {}
    end

    def change(name, words, others)
      Dir["#{@folder}/#{name}"].each do |file|
        File.write(file, File.read(file).gsub(words, others))
      end
    end
  end
end
