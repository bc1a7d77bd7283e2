# frozen_string_literal: true

require_relative "rubies"

desc "Trace overlapping requests with an agent: [vendor, requests, server (nb cluster puma), kinds]"
task :tracing, %i[vendor requests server kinds] => :compile do |_, arguments|
  known = Dir["test/tracing/vendors/*_spans.rb"].map { |path| path[/(\w+)_spans/, 1] }.sort
  vendor = arguments.fetch(:vendor, "opentelemetry")
  abort "rake tracing: no agent #{vendor.inspect}; there are #{known.join(", ")}" unless
    known.include?(vendor)

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
