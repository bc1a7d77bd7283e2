# frozen_string_literal: true

require_relative "release"

namespace :release do
  desc "Build the gem, check its files, install it where nothing else is, and use it there"
  task(:check) { Release.new.check }
end
