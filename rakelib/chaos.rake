# frozen_string_literal: true

require "etc"

# The tests that `rake chaos` runs. Each seed decides faults and orders
# (ext/neverblock/loop/chaos.h) for one test file, and for test/chaos, which takes a tenth of a
# second.
module Chaos
  # Left out: tests that measure time, shares of it or memory, which faults change.
  FILES = Dir["test/{contract,sync,server}/*_test.rb",
              *%w[net_http net_http_persistent open_uri excon httpx httparty faraday redis_client
                  redis dalli net_smtp net_imap connection_pool rest_client]
                .map { |name| "test/drivers/#{name}_test.rb" }].sort -
          %w[contract/fairness contract/gc contract/scale contract/probes contract/name_server
             server/browser server/cluster_load server/cost server/crowd server/differential
             server/gc server/proxies server/slow server/slow_reader server/soak server/stop_matrix
             server/tables sync/persistent_http].map { |name| "test/#{name}_test.rb" }
  CROSSINGS = "test/chaos/crossings.rb"
  # Part of each run of the tests, by the seeds they run under.
  SHORT = {
    11 => %w[contract/close contract/interrupt contract/shield sync/group],
    12 => %w[contract/descriptor contract/queue contract/select sync/connection_pool],
    13 => %w[contract/lock server/hijack server/framing drivers/net_http],
    14 => %w[server/basics server/app_faults server/outlives server/faults]
  }.freeze

  class << self
    # @return [Boolean] whether all passed
    def run(count, first)
      seeds = (first...(first + count)).to_a
      judge(crossings(seeds) + seeds.map { |seed| [seed, [FILES[seed % FILES.size]]] })
    end

    # @return [Boolean] whether all passed
    def run_short
      judge(crossings([*1..20]) + SHORT.flat_map do |seed, names|
        names.map { |name| [seed, ["test/#{name}_test.rb"]] }
      end)
    end

    private

    def crossings(seeds)
      seeds.each_slice(50).map do |some|
        [some.first, [CROSSINGS, some.first.to_s, some.last.to_s]]
      end
    end

    def judge(jobs)
      failed = work(jobs.dup)
      failed.each { |command| puts "to replay: #{command}" }
      puts "#{jobs.size - failed.size} passed, #{failed.size} failed"
      failed.empty?
    end

    def work(jobs)
      failed = Thread::Queue.new
      Array.new(Etc.nprocessors) {
        Thread.new do
          while (job = jobs_lock.synchronize { jobs.shift })
            try(*job, failed)
          end
        end
      }.each(&:join)
      Array.new(failed.size) { failed.pop }
    end

    def jobs_lock = @jobs_lock ||= Thread::Mutex.new

    def try(seed, arguments, failed)
      environment = {"NB_CHAOS" => seed.to_s}
      environment["NB_WORLDS"] = "epoll,poll" if arguments.first.include?("/contract/")
      command = ["timeout", "600", RbConfig.ruby, "-Ilib", "-Itest", *arguments]
      output = IO.popen([environment, *command, {err: %i[child out]}], &:read)
      return if $?.success? # rubocop:disable Style/SpecialGlobalVars

      failed << "NB_CHAOS=#{seed} ruby -Ilib -Itest #{arguments.join(" ")}"
      puts output
    end
  end
end

chaotic = lambda do
  sh({"NB_CHAOS" => "1"}, RbConfig.ruby, "-S", "rake", "--silent", "compile")
end

desc "Run tests under so many seeds of faults and orders, beginning with the seed first"
task :chaos, [:seeds, :first] do |_, arguments|
  chaotic.call
  Chaos.run(Integer(arguments.fetch(:seeds, "100")), Integer(arguments.fetch(:first, "1"))) or
    abort "chaos: some failed"
end

namespace :chaos do
  desc "Run a part of the tests under a few seeds (a minute)"
  task :short do
    chaotic.call
    Chaos.run_short or abort "chaos: some failed"
  end
end
