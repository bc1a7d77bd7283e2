# frozen_string_literal: true

# How long a worker takes for so many jobs, each of which waits and then inserts a row, and what it
# needs for that: the table of docs/JOBS.md. PostgreSQL runs beside it. The rows are measured in
# turns, each in a new process, as often as is said.
#
#   ruby -Ilib:test test/jobs/measure.rb 3                    three times 1,000 jobs of a second
#   ruby -Ilib:test test/jobs/measure.rb 1 200 100            once 200 jobs of 100 ms
#   … 1 200 1000 streams     each waits 20 ms again and again, as for the words of a language model
#   … 1 200 20 computes      each computes so long
#   … 1 200 100 calls sidekiq            or good_job
#
# or: rake jobs:measure[1,200,100,calls,sidekiq]
require "jobs/helper"

TIMES, JOBS, MILLISECONDS = [1, 1000, 1000].each_with_index.map { |number, place|
  Integer(ARGV.fetch(place, number))
}
SHAPE, QUEUE = ARGV.fetch(3, "calls"), ARGV.fetch(4, "solid_queue")
ENV["REDIS_URL"] = Databases.redis.url if QUEUE == "sidekiq"
QueueApp.load(QUEUE)
JOB = { "calls" => CallJob, "streams" => StreamJob, "computes" => ComputeJob }.fetch(SHAPE)

# One way to run the jobs, and what it took each time.
class Row
  PLAIN = { APP_WITHOUT: "1", APP_ADAPTER: "postgresql" }.freeze
  ASYNC = { **PLAIN, APP_LEVEL: "fiber" }.freeze

  def initialize(name, worker, connections: 12, **env)
    @name = name
    @worker = worker
    @env = { APP_CONNECTIONS: connections.to_s, **env }
    @samples = []
  end

  def measure
    QueueApp.empty
    ActiveJob.perform_all_later((1..JOBS).map { |number| JOB.new(number, MILLISECONDS) })
    @program = start
    @samples << watch
  ensure
    @program&.stop
  end

  # @return [String] medians, and the range of the times
  def to_s
    seconds, megabytes, cpu, connections = @samples.transpose.map(&:sort)
    format("%-42s %6.1f s (%.1f to %.1f; ideal %.1f)  %4d MB  %5.1f s CPU  %3d connections", @name,
           middle(seconds), seconds.first, seconds.last, ideal, middle(megabytes), middle(cpu),
           connections.last)
  end

  private

  def middle(sorted) = sorted[sorted.size / 2]

  # If nothing but the waits took time; for what computes, nothing but that.
  def ideal
    at_once = SHAPE == "computes" ? 1 : @worker.values_at(:fibers, :threads, :concurrency)
      .grep(Integer).first
    (JOBS / at_once.to_f).ceil * MILLISECONDS / 1000.0
  end

  def start
    case QUEUE
    when "solid_queue" then QueueApp.start(env: @env, **@worker)
    when "good_job" then QueueApp.good_job(env: @env, **@worker)
    else QueueApp.sidekiq(env: @env, **@worker.transform_keys(&:to_s))
    end
  end

  def watch
    most = 0
    until Note.where(kind: "called").count == JOBS
      most = [most, connections].max
      sleep 0.1
    end
    sleep 0.1 until done?
    pid = worker
    [taken, megabytes(pid), cpu(pid), most]
  end

  def done?
    job = { "solid_queue" => "SolidQueue::Job", "good_job" => "GoodJob::Job" }[QUEUE] or return true
    job.constantize.where(finished_at: nil).none?
  end

  # @return [Integer, nil] pid
  def worker
    QUEUE == "solid_queue" ? SolidQueue::Process.find_by(kind: "Worker")&.pid : @program.pid
  end

  # Between the begin of the first call and the end of the last.
  def taken
    times = Note.where(kind: "called").pluck(:text).map { |text| text.split.drop(1).map(&:to_f) }
    times.map(&:last).max - times.map(&:first).min
  end

  # The most that it has had.
  def megabytes(pid) = File.read("/proc/#{pid}/status")[/VmHWM:\s+(\d+)/, 1].to_i / 1024

  def cpu(pid)
    File.read("/proc/#{pid}/stat").split(") ").last.split.values_at(11, 12).sum(&:to_i) / 100.0
  end

  # Those of the worker; the dispatcher and the supervisor have one or two each.
  def connections
    pid = worker or return 0
    files = Dir["/proc/#{pid}/fd/*"].filter_map { |file| socket(file) }
    (files & to_database).size
  rescue SystemCallError
    0
  end

  def socket(file)
    File.readlink(file)[/\Asocket:\[(\d+)\]/, 1]
  rescue SystemCallError
    nil
  end

  # The inodes of all sockets that are connected to PostgreSQL.
  def to_database
    port = format(":%04X", Databases.postgresql.port)
    File.readlines("/proc/net/tcp").map(&:split).select { |row| row[2]&.end_with?(port) }
      .map { |row| row[9] }
  end
end

ROWS = {
  "solid_queue" => [
    Row.new("Solid Queue, threads: 5", { threads: 5 }, connections: 10, **Row::PLAIN),
    Row.new("Solid Queue, threads: 25", { threads: 25 }, connections: 30, **Row::PLAIN),
    Row.new("Solid Queue, threads: 100", { threads: 100 }, connections: 105, **Row::PLAIN),
    Row.new("Solid Queue with async, fibers: 100", { fibers: 100 }, **Row::ASYNC),
    Row.new("Solid Queue with async, fibers: 1000", { fibers: 1000 }, connections: 18,
                                                                      **Row::ASYNC),
    Row.new("NeverBlock, fibers: 100", { fibers: 100 }),
    Row.new("NeverBlock, fibers: 1000", { fibers: 1000 }, connections: 18)
  ],
  "good_job" => [
    Row.new("GoodJob, threads: 25", { threads: 25 }, connections: 30, **Row::PLAIN),
    Row.new("GoodJob, threads: 100", { threads: 100 }, connections: 105, **Row::PLAIN),
    Row.new("NeverBlock, threads: 100", { fibers: true, threads: 100, lock_strategy: "skiplocked",
                                          advisory_lock_heartbeat: true })
  ],
  "sidekiq" => [
    Row.new("Sidekiq, concurrency: 25", { concurrency: 25 }, connections: 30, **Row::PLAIN),
    Row.new("Sidekiq, concurrency: 100", { concurrency: 100 }, connections: 105, **Row::PLAIN),
    Row.new("NeverBlock, concurrency: 100", { fibers: true, concurrency: 100 })
  ]
}.fetch(QUEUE)

TIMES.times { ROWS.each(&:measure) }
puts ROWS
$stdout.flush
Servers.stop_all
exit!
