# frozen_string_literal: true

require_relative "chaos"

# The tests that `rake chaos` runs: a seed for each run of a file, and for test/chaos, which takes a
# tenth of a second. Left out: tests that measure time, shares of it or memory, which faults change.
CHAOS_FILES = Dir["test/{contract,sync,server}/*_test.rb",
                  *%w[net_http net_http_persistent open_uri excon httpx httparty faraday
                      redis_client redis dalli net_smtp net_imap connection_pool rest_client]
                    .map { |name| "test/drivers/#{name}_test.rb" }].sort -
              %w[contract/fairness contract/gc contract/scale contract/probes
                 contract/name_server server/browser server/cluster_load server/cost server/crowd
                 server/differential server/gc server/memory server/proxies server/slow
                 server/slow_reader server/soak server/stop_matrix server/tables
                 sync/persistent_http].map { |name| "test/#{name}_test.rb" }
# Part of each run of the tests, by the seeds they run under.
CHAOS_SHORT = {
  11 => %w[contract/close contract/interrupt contract/shield sync/group],
  12 => %w[contract/descriptor contract/queue contract/select sync/connection_pool],
  13 => %w[contract/lock server/hijack server/framing drivers/net_http],
  14 => %w[server/basics server/app_faults server/outlives server/faults]
}.freeze

namespace :chaos do
  crossings = lambda do |seeds|
    seeds.each_slice(50).map do |some|
      words = ["test/chaos/crossings.rb", some.first.to_s, some.last.to_s]
      Chaos::Job.new(some.first, words)
    end
  end
  run = lambda do |jobs|
    sh({"NB_CHAOS" => "1"}, RbConfig.ruby, "-S", "rake", "--silent", "compile")
    Chaos.new(jobs).run or abort "chaos: some failed"
  end

  desc "Run tests under so many seeds of faults and orders, beginning with the seed first"
  task :all, [:seeds, :first] do |_, arguments|
    first = Integer(arguments.fetch(:first, "1"))
    seeds = (first...(first + Integer(arguments.fetch(:seeds, "100")))).to_a
    run.call(crossings[seeds] +
      seeds.map { |seed| Chaos::Job.new(seed, [CHAOS_FILES[seed % CHAOS_FILES.size]]) })
  end

  desc "Run a part of the tests under a few seeds (a minute)"
  task :short do
    run.call(crossings[[*1..20]] + CHAOS_SHORT.flat_map do |seed, names|
      names.map { |name| Chaos::Job.new(seed, ["test/#{name}_test.rb"]) }
    end)
  end
end

desc "Run tests under so many seeds of faults and orders, beginning with the seed first"
task :chaos, [:seeds, :first] => "chaos:all"
