# frozen_string_literal: true

# Puts a server under full load and every fault of clients for so many seconds: every answer is
# looked at, and memory and fds of the server must stay what they were.
#
#   rake soak:server[600]      or: ruby -Ilib -Itest test/server/soak/run.rb 600 [seed]

require "json"
require "neverblock"
require "rbconfig"
require "tmpdir"
require_relative "../../support/clock"
require_relative "activities"

module ServerSoak
  # The clients of one soak, and what they have seen.
  class Clients
    include Clock

    COUNT = 128
    PATIENCE = 60 # seconds for one activity

    # Those that get answers.
    ASKING = %i[keep_alive pipeline upload expect errors half_close].freeze

    attr_reader :done, :failures, :right

    def initialize(port, seed)
      @port = port
      @random = Random.new(seed)
      @done = Hash.new(0)
      @failures = []
      @right = 0
      @answered = Hash.new(0)
    end

    # @return [Array<Symbol>] activities that were never answered
    def in_vain = ASKING.reject { |name| @answered[name].positive? }

    def run(seconds)
      @end = clock + seconds
      NB.run { NB.group { |group| COUNT.times { group.async { work } } } }
    end

    private

    def work
      activities = Activities.new(@port, Random.new(@random.rand(1 << 40)))
      one(activities) while clock < @end && @failures.size < 20
    end

    def one(activities)
      name, right = NB.timeout(PATIENCE) { activities.one }
      @done[name] += 1
      @right += right
      @answered[name] += right
    rescue StandardError => error
      place = error.backtrace.grep(/activities\.rb/).first(3).map { |line| line[/\d+:.*/] }
      @failures << "#{error.class}: #{error.message} #{place.join(" < ")}"
    end
  end

  # The server as a process, and how it does.
  class Watch
    include Clock

    Sample = Struct.new(:at, :rss_kb, :fds)

    attr_reader :samples

    def initialize
      @folder = Dir.mktmpdir("nb-soak")
      served = File.expand_path("served.rb", __dir__)
      @io = IO.popen([RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, served, @folder], "r+")
      @start = clock
      @samples = []
      sleep 0.02 until File.size?("#{@folder}/port") || clock - @start > 60
    end

    def port = Integer(File.read("#{@folder}/port"))

    def stats
      @io.puts("stats")
      JSON.parse(@io.gets)
    end

    def sample
      rss = File.read("/proc/#{@io.pid}/statm").split[1].to_i * 4
      @samples << Sample.new(clock - @start, rss, Dir.children("/proc/#{@io.pid}/fd").size)
      @samples.last
    end

    # @return [Boolean] whether it ended well
    def stop
      Process.kill(:TERM, @io.pid)
      @io.close
      Process.last_status.success?
    ensure
      FileUtils.rm_rf(@folder)
    end
  end

  # Runs both and judges.
  class Run
    GROWTH = 1.15 # from the second quarter to the last
    SLACK_KB = 12_000

    def initialize(seconds, seed)
      @seconds = seconds
      @watch = Watch.new
      @clients = Clients.new(@watch.port, seed)
      @failures = @clients.failures
    end

    # @return [Boolean]
    def run
      before = settled
      clients = Thread.new { @clients.run(@seconds) }
      every_second { !clients.join(1) }
      after = settled
      judge(before, after)
      @failures << "the server did not end well" unless @watch.stop
      report
    end

    private

    def every_second
      while yield
        sample = @watch.sample
        next unless (@watch.samples.size % 60).zero?

        puts format("%4d s  %6.1f MB  %4d fds  %9d answers  %d failures", sample.at,
          sample.rss_kb / 1024.0, sample.fds, @clients.right, @failures.size)
        $stdout.flush
      end
    end

    # Waits until every connection has ended. @return [Watch::Sample]
    def settled
      400.times { @watch.stats["connections"].zero? ? break : sleep(0.1) }
      @watch.sample
    end

    def judge(before, after)
      stats = @watch.stats
      puts "server: #{stats}"
      @failures << "#{stats["connections"]} connections are left" unless stats["connections"].zero?
      @failures << "fds: #{before.fds} before, #{after.fds} after" if after.fds > before.fds
      @failures << "never answered: #{@clients.in_vain.join(", ")}" if @clients.in_vain.any?
      quarters = @watch.samples.each_slice([@watch.samples.size / 4, 1].max).to_a
      early, late = quarters.values_at(1, 3).map { |quarter| quarter.map(&:rss_kb).max }
      return unless @seconds >= 60 && late > (early * GROWTH) + SLACK_KB

      @failures << "memory grew from #{early} kB to #{late} kB"
    end

    def report
      done = @clients.done.sort_by { |_, count| -count }
      done.each { |name, count| puts format("%8d %s", count, name) }
      @failures.first(20).each { |failure| puts "FAILED #{failure}" }
      samples = @watch.samples
      puts "#{@clients.right} right answers, rss #{samples.first.rss_kb} kB at first, " \
           "#{samples.map(&:rss_kb).max} kB at most, #{samples.last.rss_kb} kB at last; " \
           "fds #{samples.first.fds}, #{samples.map(&:fds).max}, #{samples.last.fds}"
      puts "#{@clients.done.values.sum} activities, #{@failures.size} failed"
      @failures.empty?
    end
  end
end

seconds = Float(ARGV[0] || 600)
seed = Integer(ARGV[1] || (Random.new_seed % 1_000_000))
puts "soak of the server: #{seconds.round} s, seed #{seed}, Ruby #{RUBY_VERSION}"
exit ServerSoak::Run.new(seconds, seed).run
