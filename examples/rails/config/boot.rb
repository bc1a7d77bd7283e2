# frozen_string_literal: true

# With Bundler, unless GEM_HOME says where the gems are, as bin/demo does.
unless ENV["GEM_HOME"]
  ENV["BUNDLE_GEMFILE"] ||= File.expand_path("../Gemfile", __dir__)
  require "bundler/setup"
end
