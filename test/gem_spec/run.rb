# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

# Runs the examples of the gem fiber_scheduler_spec against our scheduler, on each backend. Installs
# the gem into tmp/ on first use. An example that contradicts Ruby's own documentation stands in
# CONTRADICTIONS with the reason; every other must pass. `rake test:gem_spec` does it.

require "fileutils"
require "json"
require "rbconfig"
require "tmpdir"
require_relative "../../lib/neverblock"

# One run of the examples per backend.
class GemSpec
  VERSION = "0.10.0"
  ROOT = File.expand_path("../..", __dir__)
  HOME = File.join(ROOT, "tmp/gem_spec-#{RbConfig::CONFIG["ruby_version"]}")
  # The examples resolve this name; here a copy of /etc/hosts knows it.
  NAME = "example.com"

  # Full description => why it asks what Ruby's documentation does not promise.
  CONTRADICTIONS = {}.freeze

  def run
    install
    results = NB::Native.backends.to_h { |backend| [backend, examples(backend)] }
    results.each { |backend, examples| examples.each { |example| show(backend, example) } }
    failed = results.values.sum { |examples| examples.count { |example|
 verdict(example) == :failed } }
    puts "#{results.values.sum(&:size) - failed} passed, #{failed} failed"
    failed.zero?
  end

  private

  def verdict(example)
    return :passed if example["status"] == "passed"

    CONTRADICTIONS.key?(example["full_description"]) ? :contradicts : :failed
  end

  def show(backend, example)
    case verdict(example)
    when :failed
      puts "FAILED (#{backend}) #{example["full_description"]}",
example.dig("exception", "message").to_s.strip
    when :contradicts
      puts "CONTRADICTS (#{backend}) #{example["full_description"]}",
           "  #{CONTRADICTIONS.fetch(example["full_description"])}"
    end
  end

  def install
    return if File.directory?(File.join(HOME, "gems/fiber_scheduler_spec-#{VERSION}"))

    puts "installing fiber_scheduler_spec #{VERSION} into #{HOME}"
    FileUtils.mkdir_p(HOME)
    system(RbConfig.ruby, "-S", "gem", "install", "--no-document", "--install-dir", HOME,
           "fiber_scheduler_spec", "--version", VERSION, out: File::NULL) or
      abort "gem install failed: the examples need the gem fiber_scheduler_spec #{VERSION}"
  end

  def examples(backend)
    Dir.mktmpdir("nb") do |directory|
      report = File.join(directory, "report.json")
      env = { "NB_BACKEND" => backend, "GEM_HOME" => HOME, "GEM_PATH" => HOME, "RUBYOPT" => nil }
      system(env, *within(directory), RbConfig.ruby, "-I", File.join(ROOT, "lib"), "-S",
             File.join(HOME, "bin/rspec"), "--options", File::NULL, "--format", "json", "--out", report,
             File.join(__dir__, "scheduler_spec.rb"), chdir: directory, out: File::NULL, err: File::NULL)
      JSON.parse(File.read(report)).fetch("examples")
    end
  end

  # A mount namespace with our own /etc/hosts, where the system lets us have one.
  def within(directory)
    hosts = File.join(directory, "hosts")
    File.write(hosts, "#{File.read("/etc/hosts")}\n127.0.0.1 #{NAME}\n")
    prefix = ["unshare", "-rm", "sh", "-c", "mount --bind #{hosts} /etc/hosts && exec \"$@\"", "sh"]
    system(*prefix, "true", err: File::NULL) ? prefix : []
  end
end

exit(GemSpec.new.run)
# rubocop:enable Layout/LineLength
