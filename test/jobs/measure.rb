# frozen_string_literal: true

# How long a worker of Solid Queue takes for 1,000 jobs, each of which waits a second for a service
# and then inserts a row, and what it needs for that: the table of docs/JOBS.md. PostgreSQL runs
# beside it. The rows are measured in turns, each in a new process, as often as is said.
#
#   ruby -Ilib:test test/jobs/measure.rb 3
require "jobs/helper"

QueueApp.load("solid_queue")

# One way to run the jobs, and what it took each time.
class Row
  JOBS = 1000
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
    ActiveJob.perform_all_later((1..JOBS).map { |number| CallJob.new(number, 1000) })
    supervisor = QueueApp.start(env: @env, **@worker)
    @samples << watch
  ensure
    supervisor&.stop
  end

  # @return [String] medians, and the range of the times
  def to_s
    seconds, megabytes, cpu, connections = @samples.transpose.map(&:sort)
    format("%-42s %6.1f s (%.1f to %.1f)  %4d MB  %5.1f s CPU  %3d connections", @name,
           middle(seconds), seconds.first, seconds.last, middle(megabytes), middle(cpu),
           connections.last)
  end

  private

  def middle(sorted) = sorted[sorted.size / 2]

  def watch
    most = 0
    until Note.where(kind: "called").count == JOBS
      most = [most, connections].max
      sleep 0.1
    end
    sleep 0.1 until SolidQueue::Job.where(finished_at: nil).none?
    pid = SolidQueue::Process.find_by(kind: "Worker").pid
    [taken, megabytes(pid), cpu(pid), most]
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
    worker = SolidQueue::Process.find_by(kind: "Worker") or return 0
    files = Dir["/proc/#{worker.pid}/fd/*"].filter_map { |file| socket(file) }
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

ROWS = [
  Row.new("Solid Queue, threads: 25", { threads: 25 }, connections: 30, **Row::PLAIN),
  Row.new("Solid Queue, threads: 100", { threads: 100 }, connections: 105, **Row::PLAIN),
  Row.new("Solid Queue with async, fibers: 100", { fibers: 100 }, **Row::ASYNC),
  Row.new("Solid Queue with async, fibers: 1000", { fibers: 1000 }, **Row::ASYNC),
  Row.new("NeverBlock, fibers: 100", { fibers: 100 }),
  Row.new("NeverBlock, fibers: 1000", { fibers: 1000 })
].freeze

Integer(ARGV.fetch(0, "1")).times { ROWS.each(&:measure) }
puts ROWS
$stdout.flush
Servers.stop_all
exit!
