# frozen_string_literal: true

require_relative "harsh"

# Left out: what counts seconds, connections by the thousand or memory (a process under ASan is
# three times as slow and large), and what needs other programs. Everything else runs, also what
# forks and starts programs: those run under ASan as well.
ASAN_LEFT_OUT = {
  "contract" => %w[process scale],
  "server" => %w[soak crowd cost stacks cluster_load differential slow slow_reader systemd browser
                 proxies puma_plugin]
}.freeze
ASAN_SHORT = %w[contract/close contract/descriptor contract/interrupt server/app_faults
                server/faults server/hijack server/outlives server/streamed_input].freeze

namespace :asan do
  # No leaks: Ruby keeps what it has at the end. No signal handlers and stacks of ASan's own: Ruby's
  # are there. Too much memory is NoMemoryError, as ever. What is found goes into files, because
  # tests compare what programs say: at each exception that leaves a fiber ASan warns that it does
  # not know that stack.
  reports = File.expand_path("tmp/log/asan")
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
    Harsh.new("asan", {"LD_PRELOAD" => library, **environment}, reports: reports)
      .run(files, **how)
  end

  desc "Run a part of `rake asan`, once (a minute)"
  task :short do
    under.call(ASAN_SHORT.map { |name| "test/#{name}_test.rb" }, tries: 1, at_once: 2)
  end

  desc "Run contract and server with the whole extension under ASan and UBSan (gcc)"
  task :all do
    files = ASAN_LEFT_OUT.flat_map do |suite, names|
      Dir["test/#{suite}/*_test.rb"].sort - names.map { |name| "test/#{suite}/#{name}_test.rb" }
    end
    under.call(files)
  end
end

desc "Run contract and server under ASan and UBSan, in a build of its own"
task asan: "asan:all"
