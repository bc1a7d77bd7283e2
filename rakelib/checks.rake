# frozen_string_literal: true

# These tests run with each call compared with its signature. Left out: tests that call wrongly,
# tests about a call's line or objects, which would be those of the check, and tests of speed.
TYPED = %w[sync/connection_pool sync/deadline sync/fiber_pool sync/gather sync/group
           sync/interruption sync/limiter sync/periodic sync/process_pool sync/retrying sync/task
           sync/task_names sync/persistent_http contract/shield loop/await loop/dump loop/offload
           server/basics server/elsewhere server/leaving server/observer].freeze
UNTYPED = "/on_async|on_threads|wrong|refused|name|inspect|reported|nothing|unseen|any_return|" \
          "left_by_break|what_can_be_called|times_as_fast/"

namespace :lint do
  task(:ruby) { sh "rubocop", "--cache-root", "tmp/rubocop", "--format", "simple" }

  task :c do
    files = FileList["ext/**/*.{c,h}", "test/c/**/*.{c,h}"]
    sh "clang-format", "--dry-run", "--Werror", *files unless files.empty?
  end

  task(:signatures) { sh "rbs", *%w[net-http timeout uri].flat_map { |name| ["-r", name] },
                         "-I", "sig", "validate" }

  task types: :compile do
    files = TYPED.map { |name| "./test/#{name}_test.rb" }
    # Comparing each call takes time, also in other threads, which keep the GVL meanwhile.
    sh({"NB_WORLDS" => "epoll", "NB_PATIENCE" => "2"},
       RbConfig.ruby, "-Ilib", "-Itest", "-r./test/support/types",
       *files.map { |file| "-r#{file}" }, "-e", "", "--", "--exclude", UNTYPED)
    sh RbConfig.ruby, "-Ilib", "-rneverblock/minitest", "-r./test/support/types",
       "examples/cookbook/retries_test.rb"
  end
end

desc "Make the API pages in doc/; fails when something public is not documented"
task :docs do
  sh "yard", "doc", "--quiet"
  report = `yard stats --list-undoc --no-cache 2>&1`
  puts report
  abort "undocumented: see above" unless report.include?("100.00% documented")
end
