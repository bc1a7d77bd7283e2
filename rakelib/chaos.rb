# frozen_string_literal: true

require "etc"
require "rbconfig"

# Runs tests, each in a process of its own under a seed of faults and orders
# (ext/neverblock/loop/chaos.h). Prints a line when one has ended, with all it wrote if it has
# failed, and at the end how to replay what failed.
class Chaos
  # Seconds after which a process counts as hanging.
  LIMIT = 600
  # How timeout(1) ends then, and what it adds to the number of a signal.
  EXPIRED = 124
  BY_SIGNAL = 128
  # What a process says that has tried something. Whatever its status, one without it broke off.
  TRIED = /^[1-9]\d* (?:runs|crossings passed), /.freeze

  # @!attribute arguments [Array<String>] a test file, which gets its order from the seed, too; or a
  #   program and what it is told
  Job = Struct.new(:seed, :arguments) do
    def test? = arguments.first.end_with?("_test.rb")
    def words = test? ? [*arguments, "--seed", seed.to_s] : arguments

    # Of the contract only the worlds in which there are faults.
    def environment
      worlds = arguments.first.include?("/contract/") ? {"NB_WORLDS" => "epoll,poll"} : {}
      {"NB_CHAOS" => seed.to_s, **worlds}
    end

    def to_s
      settings = environment.map { |name, value| "#{name}=#{value}" }
      [*settings, "ruby", "-Ilib", "-Itest", *words].join(" ")
    end
  end

  # @param jobs [Array<Job>]
  def initialize(jobs, limit: LIMIT)
    @jobs = jobs
    @limit = limit
    @lock = Thread::Mutex.new
    @ended = @tests = @crossings = 0
    @failed = []
  end

  # @param at_once [Integer] how many processes run at a time
  # @return [Boolean] whether all passed
  def run(at_once: Etc.nprocessors)
    start = now
    left = Thread::Queue.new(@jobs).close
    workers = Array.new(at_once) do
      Thread.new do
        while (job = left.pop)
          try(job)
        end
      end
    end
    workers.each(&:join)
    conclude(now - start)
  end

  private

  def try(job)
    start = now
    command = ["timeout", @limit.to_s, RbConfig.ruby, "-Ilib", "-Itest", *job.words]
    output = IO.popen([job.environment, *command, {err: %i[child out]}], &:read).scrub
    status = $? # rubocop:disable Style/SpecialGlobalVars -- of this thread
    @lock.synchronize do
      note(job, output, status.success? && output.match?(TRIED))
      puts "#{@ended} of #{@jobs.size}: seed #{job.seed}, #{job.arguments.join(" ")}: " \
           "#{fate(status, output)} (#{(now - start).round} s)"
      $stdout.flush
    end
  end

  def note(job, output, passed)
    @ended += 1
    @tests += output[/^(\d+) runs, /, 1].to_i
    @crossings += output[/^(\d+) crossings passed/, 1].to_i
    return if passed

    puts output
    @failed << job
  end

  def fate(status, output)
    code = status.exitstatus
    return output.match?(TRIED) ? "passed" : "broke off" if status.success?
    return "still running after #{@limit} s" if code == EXPIRED

    number = status.termsig || (code - BY_SIGNAL if code > BY_SIGNAL)
    number ? "ended by SIG#{Signal.signame(number)}" : "failed"
  end

  def conclude(seconds)
    puts "#{@tests} tests and #{@crossings} crossings in #{seconds.round} s"
    @failed.each { |job| puts "to replay: #{job}" }
    puts "#{@jobs.size - @failed.size} passed, #{@failed.size} failed"
    @failed.empty?
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
