# frozen_string_literal: true

require "neverblock"
require "neverblock/server"
require "rbs"
require "rbs/test"

# Loaded before a test file: compares each call of a method in sig/neverblock.rbs with its signature
# (arguments, what blocks get and return, the value), and raises if they differ.
module Types
  FOLDER = Pathname(File.expand_path("../../sig", __dir__))
  LIBRARIES = %w[net-http timeout uri].freeze

  class << self
    # @return [Array<Module>] those that are checked
    def check
      ENV["RBS_TEST_RAISE"] = "true"
      RBS.logger_level = :error # each call is logged
      tester = RBS::Test::Tester.new(env: env = environment)
      modules = env.class_decls.keys.map(&:to_s).grep(/\A::NB(::|\z)/)
                  .select { |name| Object.const_defined?(name) }
      modules.map { |name| Object.const_get(name) }
             .each { |one| tester.install!(one, sample_size: 100, unchecked_classes: []) }
    end

    private

    def environment
      loader = RBS::EnvironmentLoader.new
      LIBRARIES.each { |name| loader.add(library: name, version: nil) }
      loader.add(path: FOLDER)
      RBS::Environment.from_loader(loader).resolve_type_names
    end
  end
end
Types.check
