# frozen_string_literal: true

require "jobs/storm"

# A storm over Sidekiq. A crew is one process.
class QueueApp::SidekiqStorm < QueueApp::Storm
  def initialize(...)
    super
    @killed = []
  end

  # Without Pro, Sidekiq keeps a job that it has taken from Redis nowhere but in its process: when
  # that is killed, the job is gone.
  # @return [Integer] how many jobs may be lost: what the killed processes could run at once
  def allowance = @killed.size * @settings.fetch(:concurrency)

  # @return [Integer] jobs that all crews together run at once
  def at_once = CREWS * @settings.fetch(:concurrency)

  def kill_worker = kill_crew

  def kill_crew
    replace do |crew|
      crew.kill
      @killed << crew
    end
  end

  def restart_redis = Databases.redis.restart

  private

  def start = QueueApp.sidekiq(env: @env, **@settings.transform_keys(&:to_s))
  def workers(crew) = [crew.pid]
  def up?(crew) = Sidekiq::ProcessSet.new.any? { |one| one["pid"] == crew.pid }

  # Jobs that failed while the database was down: now, not in half a minute.
  def mend
    Sidekiq::RetrySet.new.retry_all
  rescue RedisClient::Error
    nil # it is down
  end

  def done?
    [Sidekiq::Queue, Sidekiq::RetrySet].all? { |set| set.new.size.zero? }
  rescue RedisClient::Error
    false # it is down
  end
end
