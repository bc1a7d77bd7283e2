# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "tmpdir"
require_relative "../support/program"

# Runs a file of samples with the real test framework, in a process of its own.
module Samples
  MISSING = %w[rspec webmock vcr].reject { |name| Gem::Specification.find_all_by_name(name).any? }

  CASSETTE = <<~'YAML'
    http_interactions:
    - request: {method: get, uri: http://example.com/page, body: {string: ""}, headers: {}}
      response:
        status: {code: 200, message: OK}
        headers: {Content-Type: [text/plain]}
        body: {encoding: UTF-8, string: recorded}
      recorded_at: Sun, 01 Jan 2023 00:00:00 GMT
    recorded_with: VCR 6.0.0
  YAML

  module_function

  # @return [String] all that it has written
  def run(*command)
    Dir.mktmpdir do |folder|
      File.write("#{folder}/page.yml", CASSETTE)
      Open3.capture2e({ "CASSETTES" => folder, "MT_NO_PLUGINS" => "1" },
        *Program::RUBY, "-W0", "-I#{Program::ROOT}/lib", *command, chdir: Program::ROOT).first
    end
  end
end
