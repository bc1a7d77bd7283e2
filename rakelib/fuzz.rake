# frozen_string_literal: true

namespace :fuzz do
  desc "Compare the parser with Puma's and llhttp on so many mutated requests (docs/PARSER.md)"
  task :differential, [:count, :seed] do |_, arguments|
    ruby "-W0", "-Itest", "test/differential/run.rb", *arguments.to_a
  end

  desc "Run so many random programs, each in threads and in fibers: do both see the same?"
  task :blocking, [:count, :seed, :backend] => :compile do |_, arguments|
    ENV["NB_WATCHDOG"] ||= "0"
    ruby "-W0", "-Ilib", "-Itest", "test/random_programs/run.rb", *arguments.to_a
  end

  desc "Run libFuzzer on the parser for so many seconds (needs clang); new inputs go to tmp/corpus"
  task :parser, [:seconds] do |_, arguments|
    mkdir_p %w[tmp/c tmp/corpus], verbose: false
    sh "clang", "-g", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all",
       "-o", "tmp/c/http_fuzz",
       "test/c/http_fuzz.c", *Dir["ext/neverblock/http/*.c"]
    sh "tmp/c/http_fuzz", "-max_total_time=#{arguments.fetch(:seconds, 60)}",
       "-dict=test/c/corpus/http.dict", "-print_final_stats=1", "tmp/corpus", "test/c/corpus/http"
  end
end
