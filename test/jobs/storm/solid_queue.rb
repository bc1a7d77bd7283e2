# frozen_string_literal: true

require "jobs/storm"

# A storm over Solid Queue. A crew is a supervisor, its dispatcher and its worker.
class QueueApp::SolidQueueStorm < QueueApp::Storm
  # What Solid Queue does with the jobs of a killed process: it makes them fail, so that somebody
  # decides whether they run again. They may have ended, or not.
  FATES = %w[SolidQueue::Processes::ProcessExitError SolidQueue::Processes::ProcessPrunedError
             SolidQueue::Processes::ProcessMissingError].freeze

  # @return [Hash{String => Array<Integer>}] jobs that were retried, by the class of their error
  attr_reader :retried

  def initialize(...)
    super
    @retried = Hash.new { |all, error| all[error] = [] }
  end

  # @return [Array<Integer>] jobs that ran twice though nobody has asked for that
  def doubled_unasked = doubled - retried.values.flatten

  def summary = "#{super}, retried: #{retried.transform_values(&:size)}"

  # @return [Integer] jobs that all crews together run at once
  def at_once = CREWS * @settings.values.first

  private

  # A process that is late with its heartbeat is taken for dead, and its jobs run beside it a second
  # time. 10 s are too few for that on a machine with ten times more to do than cores.
  def start = QueueApp.start(env: { APP_ALIVE: "60", APP_SHUTDOWN: "30", **@env }, **@settings)

  # The row of one that was killed stays for a minute or two.
  def workers(crew)
    supervisor = SolidQueue::Process.find_by(pid: crew.pid, supervisor_id: nil) or return []
    supervisor.supervisees.where(kind: "Worker").pluck(:pid)
              .select { |pid| File.exist?("/proc/#{pid}") }
  end

  def up?(crew) = workers(crew).any?

  def mend
    SolidQueue::FailedExecution.includes(:job).each do |failed|
      @retried[failed.exception_class] << failed.job.arguments.dig("arguments", 0)
      failed.retry
    end
  end

  def done? = SolidQueue::Job.where(finished_at: nil).none?

  def left_over
    [SolidQueue::ReadyExecution, SolidQueue::ClaimedExecution, SolidQueue::FailedExecution]
      .map { |one| "#{one.name}: #{one.count}" } +
      SolidQueue::Process.all.map { |one| "#{one.kind} #{one.pid}: #{one.claimed_executions.size}" }
  end
end
