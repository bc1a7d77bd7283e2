# frozen_string_literal: true

require_relative "stress_run"

# Left out: tests that measure seconds, thousands of connections or memory (a process under ASan is
# three times as slow and large), tests that need other programs, and those that count all fds, or
# use all up, of which ASan's report is one. Everything else runs, including tests that fork and
# start programs, which run under ASan as well.
ASAN_LEFT_OUT = {
  "contract" => %w[process scale short_of_files],
  "loop" => %w[fork_matrix short_of_files],
  "server" => %w[soak crowd cost stacks cluster_load differential slow slow_reader systemd browser
                 proxies puma_plugin memory],
  "monitor" => %w[doctor]
}.freeze
ASAN_SHORT = %w[contract/close contract/descriptor contract/interrupt server/app_faults
                server/faults server/hijack server/outlives server/streamed_input
                loop/watchdog].freeze

namespace :asan do
  # No leak detection: Ruby keeps what it has at the end. No signal handlers and stacks of ASan's
  # own: Ruby has its own. Too much memory raises NoMemoryError, as usual. Reports go into files,
  # because tests compare what programs print, and ASan warns that it does not know the stack at
  # each exception that leaves a fiber.
  reports = File.expand_path("tmp/log/asan-#{RUBY_VERSION[/\d+\.\d+/]}")
  options = %w[detect_leaks=0 handle_segv=0 use_sigaltstack=0 allocator_may_return_null=1]
  environment = {
    "NB_SANITIZE" => "1",
    "ASAN_OPTIONS" => [*options, "log_path=#{reports}"].join(":"),
    "UBSAN_OPTIONS" => "print_stacktrace=1:halt_on_error=1:log_path=#{reports}"
  }
  under = lambda do |files, **how|
    sh(environment, RbConfig.ruby, "-S", "rake", "--silent", "compile")
    mkdir_p File.dirname(reports), verbose: false
    library = `gcc -print-file-name=libasan.so`.chomp
    StressRun.new("asan", {"LD_PRELOAD" => library, **environment}, reports: reports)
      .run(files, **how)
  end

  desc "Run a part of `rake asan` (a minute)"
  task :short do
    under.call(ASAN_SHORT.map { |name| "test/#{name}_test.rb" }, at_once: 2)
  end

  desc "Run contract, loop, server and monitor with the whole extension under ASan and UBSan (gcc)"
  task :all do
    files = ASAN_LEFT_OUT.flat_map do |suite, names|
      Dir["test/#{suite}/*_test.rb"].sort - names.map { |name| "test/#{suite}/#{name}_test.rb" }
    end
    under.call(files)
  end
end

desc "Run contract, loop, server and monitor under ASan and UBSan, in a build of its own"
task asan: "asan:all"
