# frozen_string_literal: true

# The gems are there: Bundler would ask for all that the project's Gemfile names. No debugger looks
# on. Nobody reads a profile, and Rails has another class of that name.
$LOADED_FEATURES.push("bundler.rb", "bundler/setup.rb", "debug.rb", "minitest/profile.rb",
                       "byebug.rb", "pry-byebug.rb")
module Bundler # :nodoc:
  ORIGINAL_ENV = ENV.to_h.freeze # Puma asks for it
  def self.require(*) = nil
  def self.setup(*) = nil
end
