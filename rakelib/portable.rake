# frozen_string_literal: true

require_relative "c_tests"
require_relative "test_files"

# Left out: tests that watch Linux system calls or need Linux programs, ten thousand fds in poll(2),
# and a listener that refuses before it closes, which only Linux can do.
PORTABLE_LEFT_OUT = %w[
  server/cost server/systemd server/soak server/crowd server/cluster_load server/browser
  server/prometheus server/leaving server/stop_matrix cli/delayd cli/rubyhttp
].freeze
PORTABLE_SHORT = %w[
  contract/connect contract/datagram contract/descriptor contract/file contract/fork contract/pipe
  contract/process contract/select contract/stream contract/wait
  server/basics server/faults server/hijack server/level server/limits
  server/outlives server/streamed_input cli/delay_server_portable
].freeze

namespace :portable do
  on_the_build = lambda do |names|
    ENV["NB_PORTABLE"] = "1" # also of all that the tests start
    sh RbConfig.ruby, "-S", "rake", "--silent", "compile"
    TestFiles.run(names.map { |name| "test/#{name}_test.rb" }, at_once: 2) or
      abort "a test file failed"
  end

  desc "Run a part of `rake portable` (a minute)"
  task(:short) { on_the_build.call(PORTABLE_SHORT) }

  desc "Run the tests of pure C with musl, and for aarch64 in an emulator, if those are installed"
  task(:c) { CTests.run_elsewhere or abort "a C test failed" }

  desc "Run contract, server and commands in a build without what only Linux has"
  task :all do
    files = Dir["test/{contract,server,cli}/*_test.rb"].sort
    names = files.map { |file| file.delete_prefix("test/").delete_suffix("_test.rb") }
    on_the_build.call(names - PORTABLE_LEFT_OUT)
  end
end

desc "Run the tests of pure C: `rake test:c portable:c`"
task c: %w[test:c portable:c]

desc "Run contract, server and commands without what only Linux has, in a build of its own"
task portable: "portable:all"
