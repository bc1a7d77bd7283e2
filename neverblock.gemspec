# frozen_string_literal: true

require_relative "lib/neverblock/version"

Gem::Specification.new do |spec|
  spec.name = "neverblock"
  spec.version = NB::VERSION
  spec.authors = ["The NeverBlock authors"]
  spec.summary = "Plain blocking Ruby, run as evented I/O"
  spec.description = <<~TEXT
    Thousands of waits in one process on one thread, with no callbacks and no change to the
    application: a Fiber::Scheduler in C, its own Rack server, and what drivers need to wait properly.
  TEXT
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.1"
  spec.files = Dir["{lib,ext,docs,sig}/**/*.{rb,c,h,md,rbs,yaml}",
                   "lib/neverblock/page/*.{html,css,js,svg}", "exe/nb", "README.md",
                   "CHANGELOG.md", "SECURITY.md", "LICENSE"]
  spec.bindir = "exe"
  spec.executables = ["nb"]
  spec.extensions = ["ext/neverblock/extconf.rb"]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
