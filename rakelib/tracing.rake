# frozen_string_literal: true

require_relative "rubies"

desc "Trace overlapping requests with an agent: [vendor, requests, server (nb cluster puma), kinds]"
task :tracing, %i[vendor requests server kinds] => :compile do |_, arguments|
  ruby "-W0", "-Ilib:test", "test/tracing/load.rb", *arguments.to_a
end

namespace :tracing do
  desc "Install Datadog's agent for the tests, for every Ruby (it compiles for a minute)"
  task :datadog do
    Rubies.all.each do |ruby|
      sh ruby.environment, ruby.path, "-W0", "-S", "gem", "install", "datadog", "--version",
         "~> 2.0", "--conservative", "--no-document", "--silent", verbose: false
    end
  end
end
