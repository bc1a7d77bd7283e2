# frozen_string_literal: true

# Not those that start programs: a program that is not built with ASan cannot have it preloaded, and
# a process with threads that forks under it may hang.
ASAN_TESTS = %w[basics limits faults app_faults strict framing hijack streamed_input].freeze

desc "Run the server's tests with the extension under ASan and UBSan (gcc); compiles it twice"
task :asan do
  environment = {"ASAN_OPTIONS" => "detect_leaks=0:handle_segv=0:use_sigaltstack=0",
                 "UBSAN_OPTIONS" => "print_stacktrace=1:halt_on_error=1",
                 "LD_PRELOAD" => `gcc -print-file-name=libasan.so`.chomp}
  sh({"NB_SANITIZE" => "1"}, RbConfig.ruby, "-S", "rake", "--silent", "compile")
  ASAN_TESTS.each do |name|
    sh environment, RbConfig.ruby, "-Ilib", "-Itest", "test/server/#{name}_test.rb"
  end
ensure
  sh({"NB_SANITIZE" => nil}, RbConfig.ruby, "-S", "rake", "--silent", "compile")
end
