# frozen_string_literal: true

namespace :lint do
  task(:ruby) { sh "rubocop", "--cache-root", "tmp/rubocop", "--format", "simple" }

  task :c do
    files = FileList["ext/**/*.{c,h}", "test/c/**/*.{c,h}"]
    sh "clang-format", "--dry-run", "--Werror", *files unless files.empty?
  end

  task(:signatures) { sh "rbs", *%w[net-http timeout uri].flat_map { |name| ["-r", name] },
                         "-I", "sig", "validate" }
end

desc "Make the API pages in doc/; fails when something public is not documented"
task :docs do
  sh "yard", "doc", "--quiet"
  report = `yard stats --list-undoc --no-cache 2>&1`
  puts report
  abort "undocumented: see above" unless report.include?("100.00% documented")
end
