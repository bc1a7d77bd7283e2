# frozen_string_literal: true

# Works off jobs for so many seconds: two crews of processes, of which one is killed, stopped and
# replaced, while both lose the database now and then. No job may be lost but those that Sidekiq
# loses with a killed process, and memory and fds of the worker that lives longest must stay what
# they were. It ends by itself when the database restarts, in Solid Queue: that is told, and happens
# in the last third no more, so that a series is long enough to judge by.
#
#   rake soak:jobs[600,good_job]     or: ruby -Ilib -Itest test/jobs/soak.rb 600 [queue [seed]]

require "jobs/storm/solid_queue"
require "jobs/storm/good_job"
require "jobs/storm/sidekiq"

# Added to a storm.
module QueueApp::Soak
  STRIKES = %i[kill_worker stop_crew kill_crew restart_database].freeze
  # Jobs of a round.
  ROWS, OTHERS = 100, 20
  # From the second quarter of a worker's samples to the last.
  GROWTH, SLACK_KB, SLACK_FDS = 1.15, 12_000, 10
  # Of one worker: fewer say nothing.
  SAMPLES = 8

  # @return [Boolean]
  def soak(seconds)
    @samples = Hash.new { |all, pid| all[pid] = [] }
    @failures = []
    @rounds = 0
    @end = (@begin = clock) + seconds
    @crews = Array.new(2) { launch }
    round while clock < @end && @failures.empty?
    judge
    report
  ensure
    @programs.each(&:kill)
  end

  private

  # The other one stays.
  def some_crew = @crews.first

  def round
    @rounds += 1
    @count = ROWS
    @deadline = clock + QueueApp::Storm::LIMIT
    Note.where.not(kind: %w[mixed exit]).delete_all
    enqueue
    ActiveJob.perform_all_later((1..OTHERS).flat_map { |n| [StateJob.new(n), RetriedJob.new(n)] })
    strike = strikes_now.sample(random: @random) if (@rounds % 3).zero?
    watch { rows.count >= ROWS / 4 } && public_send(strike) if strike
    watch { done? }
    wait_for_last if respond_to?(:allowance)
    note(strike)
  rescue Minitest::Assertion => error
    @failures << error.message
  end

  # Sidekiq's queue is empty while the last jobs run, which take less than a second.
  def wait_for_last
    limit = clock + 20
    sleep 0.1 until lost.empty? || clock > limit
  end

  def strikes_now
    clock < @end - ((@end - @begin) / 3) ? STRIKES : STRIKES - [:restart_database]
  end

  # Those that Sidekiq loses with a killed process are its own.
  def lost_here = strike_kills? && lost.size <= @settings[:concurrency] ? [] : lost
  def strike_kills? = respond_to?(:allowance) && @strikes.last.to_s.start_with?("kill")

  def note(strike)
    @strikes << strike
    found = { lost: lost_here, torn: torn, crossed: crossed }.reject { |_, list| list.empty? }
    @failures << "round #{@rounds}, #{strike}: #{found}" if found.any?
    pid = eventually { workers(@crews.last).first }
    puts "worker #{@watched} was replaced by #{pid}: a new series" if @watched && @watched != pid
    @watched = pid
    @samples[pid] << [kilobytes(pid), Dir.children("/proc/#{pid}/fd").size]
    puts format("%5.0f s  round %d  %7d kB  %3d fds  %s", clock - @begin, @rounds,
                *@samples[pid].last, strike)
    $stdout.flush
  rescue Errno::ENOENT
    nil # a restart of the database has ended it
  end

  def kilobytes(pid) = File.read("/proc/#{pid}/status")[/VmRSS:\s+(\d+)/, 1].to_i

  def judge
    samples = @samples.values.max_by(&:size).to_a
    return @failures << "only #{samples.size} samples of one worker: let it run longer" if
      samples.size < SAMPLES

    quarter = samples.size / 4
    (memory, fds), (memory_late, fds_late) =
      [samples[quarter, quarter], samples.last(quarter)].map { |some| some.transpose.map(&:max) }
    @failures << "memory grew from #{memory} to #{memory_late} kB" if
      memory_late > (memory * GROWTH) + SLACK_KB
    @failures << "fds: #{fds} before, #{fds_late} after" if fds_late > fds + SLACK_FDS
  end

  def report
    puts "#{@rounds * (ROWS + (2 * OTHERS))} jobs, #{@programs.size} programs, " \
         "#{@failures.size} failures", @failures
    @failures.empty?
  end
end

seconds, queue, seed = ARGV
queue ||= "solid_queue"
storm = { "solid_queue" => QueueApp::SolidQueueStorm, "good_job" => QueueApp::GoodJobStorm,
          "sidekiq" => QueueApp::SidekiqStorm }
settings = { "solid_queue" => { fibers: 50 }, "sidekiq" => { fibers: true, concurrency: 50 },
             "good_job" => { fibers: true, threads: 50, lock_strategy: "skiplocked",
                             poll_interval: 1, advisory_lock_heartbeat: true } }
abort "the queues are #{storm.keys.join(", ")}" unless storm.key?(queue)
abort "gem #{queue} is not there for Ruby #{RUBY_VERSION}" unless QueueApp.there?(queue)
ENV["REDIS_URL"] = Databases.redis.url if queue == "sidekiq"
QueueApp.load(queue)
QueueApp.empty
if queue == "sidekiq"
  require "sidekiq/api"
  Sidekiq.default_configuration.logger = nil
end
Minitest.seed = Integer(seed || Random.new_seed % 1_000_000)
puts "soak: #{queue}, seed #{Minitest.seed}, Ruby #{RUBY_VERSION}"
good = storm[queue].new(**settings[queue]).extend(QueueApp::Soak).soak(Float(seconds || 600))
Servers.stop_all
FileUtils.rm_rf(QueueApp::FOLDER)
$stdout.flush
exit!(good)
