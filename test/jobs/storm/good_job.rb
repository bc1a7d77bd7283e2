# frozen_string_literal: true

require "jobs/storm"

# A storm over GoodJob. A crew is one process.
class QueueApp::GoodJobStorm < QueueApp::Storm
  # What GoodJob does with the jobs of a process that it finds dead: it runs them again, and notes
  # that their first run was interrupted. It may have ended, or not.
  # @return [Array<Integer>] those jobs
  def interrupted
    ids = GoodJob::Execution.where(error_event: "interrupted").distinct.pluck(:active_job_id)
    GoodJob::Job.where(active_job_id: ids).map { |job| number(job) }
  end

  # Neither interrupted nor, while the database was down, failed.
  # @return [Array<Integer>] jobs that ran twice though GoodJob does not say so
  def doubled_unasked = doubled - interrupted - failed

  # @return [Integer] jobs that all crews together run at once
  def at_once = CREWS * @settings.fetch(:threads)

  def kill_worker = kill_crew

  private

  def number(job) = job.serialized_params.dig("arguments", 0)
  def failed = @failed ||= []

  def start = QueueApp.good_job(env: @env, **@settings)
  def workers(crew) = [crew.pid]
  def up?(crew) = GoodJob::Process.all.any? { |one| one.state["pid"] == crew.pid }

  # Jobs that failed while the database was down.
  def mend
    GoodJob::Job.where(error_event: "unhandled").where.not(finished_at: nil).each do |job|
      failed << number(job)
      job.retry_job
    end
  end

  def done? = GoodJob::Job.where(finished_at: nil).none?
end
