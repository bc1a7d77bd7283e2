# frozen_string_literal: true

class ApplicationJob < ActiveJob::Base
  private

  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def note(kind, number, text = nil)
    Note.create!(kind: kind, number: number, pid: Process.pid, text: text)
  end
end

# Asks a slow service, and notes its answer.
class CallJob < ApplicationJob
  def perform(number, milliseconds)
    began = clock
    answer = Net::HTTP.get(URI("http://127.0.0.1:#{ENV.fetch("APP_SERVICE")}/?ms=#{milliseconds}"))
    note("called", number, "#{answer} #{began} #{clock}")
  end
end

# Waits for a service every 20 ms, as for the words of a language model.
class StreamJob < ApplicationJob
  def perform(number, milliseconds)
    began = clock
    Net::HTTP.start("127.0.0.1", ENV.fetch("APP_SERVICE").to_i) do |http|
      (milliseconds / 20).times { http.get("/?ms=20") }
    end
    note("called", number, "done #{began} #{clock}")
  end
end

# Computes.
class ComputeJob < ApplicationJob
  def perform(number, milliseconds)
    began = clock
    # Some 5,000 of them take 1 ms.
    (milliseconds * 5000).times { |one| Integer.sqrt(one) }
    note("called", number, "done #{began} #{clock}")
  end
end

# State of its own for a job: whatever Rails, Sentry and programs keep for each unit of work.
module State
  FRESH = [:en, "UTC", nil, %i[default writing], {}].freeze

  private

  def state
    [I18n.locale, Time.zone.name, Current.person, [Shard.current_shard, Shard.current_role],
     Sentry.get_current_scope.tags]
  end

  # Notes what the job finds that others have left, and runs the block in its own.
  def with_state(number, &block)
    note("mixed", number, "began with #{state}") unless state == FRESH
    # Threads keep this one for the next job, and so do Sidekiq's fibers.
    note("kept", number) if Thread.current[:number]
    Thread.current[:number] = number
    become(number)
    Sentry.with_scope do |scope|
      scope.set_tags(number: number)
      Shard.connected_to(shard: %i[default other][number % 2], role: :writing) do
        @mine = state
        block.call
      end
    end
  end

  # Not `set`, which is Active Job's.
  def become(number)
    I18n.locale = %i[en de fr][number % 3]
    Time.zone = %w[UTC Tokyo Lima][number % 3]
    Current.person = number
  end

  # Looks at it again, after others had their turns.
  def check_state(number)
    note("mixed", number, "#{@mine} became #{state}") unless state == @mine
    note("mixed", number, "a local of the thread") unless Thread.current[:number] == number
  end
end

class StateJob < ApplicationJob
  include State

  def perform(number)
    with_state(number) do
      3.times do
        sleep 0.05
        Shard.connection_pool.with_connection { |one| one.select_value("SELECT 1") }
        check_state(number)
      end
    end
    note("state", number)
  end
end

# Asks a service, then writes two rows in one transaction, with a wait between them.
class RowsJob < ApplicationJob
  include State

  def perform(number)
    note("began", number)
    with_state(number) do
      Net::HTTP.get(URI("http://127.0.0.1:#{ENV.fetch("APP_SERVICE")}/?ms=20"))
      check_state(number)
      write(number)
      check_state(number)
    end
  end

  private

  def write(number)
    ActiveRecord::Base.transaction do
      note("first", number)
      sleep 0.002
      note("second", number)
    end
  end
end

# Fails, with a connection in its hands and a transaction open.
class FailingJob < ApplicationJob
  Broken = Class.new(StandardError)

  def perform(number)
    ActiveRecord::Base.lease_connection
    ActiveRecord::Base.transaction do
      note("lost", number)
      sleep 0.05
      raise Broken, "job #{number}"
    end
  end
end

# Fails twice.
class RetriedJob < ApplicationJob
  retry_on FailingJob::Broken, wait: 0, attempts: 3

  def perform(number)
    note("attempt", number, executions.to_s)
    raise FailingJob::Broken if executions < 3
  end
end

# Lasts until it is stopped; the second run ends at once.
class LongJob < ApplicationJob
  def perform(number, seconds)
    ended = note("ended", number, "again") if Note.exists?(kind: "began", number: number)
    return if ended

    note("began", number)
    wait(number, seconds)
    ended = note("ended", number, "at once")
  ensure
    note("tidied", number) unless ended
  end

  private

  # In the middle of a transaction. SQLite has one writer at a time: all others would wait.
  def wait(number, seconds)
    return sleep(seconds) if Note.connection_db_config.adapter.include?("sqlite")

    ActiveRecord::Base.transaction do
      note("half", number)
      sleep seconds
    end
  end
end

# Takes no notice of being stopped, and says it has done its work.
class StubbornJob < LongJob
  def perform(number, seconds)
    super
  rescue Exception # rubocop:disable Lint/RescueException -- as such jobs do
    nil
  end
end

# Makes an error of its own out of being stopped.
class TurningJob < LongJob
  Turned = Class.new(StandardError)
  after_discard { |job| job.send(:note, "discarded", job.arguments.first) }

  def perform(number, seconds)
    super
  rescue Exception => error # rubocop:disable Lint/RescueException -- as such jobs do
    raise Turned, error.message
  end
end

# That error is one to retry.
class RetryingJob < TurningJob
  retry_on StandardError, wait: 0
end

# Is stopped while it looks after an error that is one to retry.
class RescuingJob < LongJob
  retry_on StandardError, wait: 0

  def perform(number, seconds)
    raise "the service is down"
  rescue StandardError
    super
  end
end

# Retries itself.
class AgainJob < LongJob
  def perform(number, seconds)
    super
  rescue Exception # rubocop:disable Lint/RescueException -- as such jobs do
    retry_job
  end
end

# One at a time.
class LimitedJob < ApplicationJob
  if respond_to?(:limits_concurrency) # Solid Queue's
    limits_concurrency to: 1, key: "all", duration: 1.minute
  elsif defined?(GoodJob)
    include GoodJob::ActiveJobExtensions::Concurrency

    good_job_concurrency_rule(label: "all", apply_label: true, perform_limit: 1)
  end

  def perform(number)
    note("enter", number)
    sleep 0.02
    note("leave", number)
  end
end

# Asks a slow service, after GoodJob has counted how many of its kind run.
class CountedJob < CallJob
  if defined?(GoodJob)
    include GoodJob::ActiveJobExtensions::Concurrency

    good_job_concurrency_rule(label: "counted", apply_label: true, perform_limit: 1000)
  end
end

# Ends the thread that runs it, once.
class KillingJob < ApplicationJob
  def perform(number)
    return note("ended", number, "again") if Note.exists?(kind: "began", number: number)

    note("began", number)
    Thread.current.kill
    sleep
  end
end

# Leaves a thread that raises in the one that runs it, once that sleeps.
class StrayJob < ApplicationJob
  def perform(_)
    thread = Thread.current
    Thread.new do
      sleep 0.05
      Thread.pass until thread.stop?
      thread.raise("the connection broke")
    end
  end
end

# Seconds between two items of a job that has some.
ITEM_SECONDS = Float(ENV.fetch("APP_ITEM_SECONDS", 0.05))

if defined?(Sidekiq::IterableJob)
  # Sidekiq interrupts it between two items, and continues it with the next one.
  class ItemsJob
    include Sidekiq::IterableJob

    def build_enumerator(count, cursor:) = array_enumerator((1..count).to_a, cursor: cursor)

    def each_iteration(number, _count)
      Note.create!(kind: "item", number: number, pid: Process.pid)
      sleep ITEM_SECONDS
    end
  end
end

if defined?(ActiveJob::Continuable)
  # Active Job interrupts it between two items, and continues it with the next one.
  class StepsJob < ApplicationJob
    include ActiveJob::Continuable
    self.resume_options = {}

    def perform(number, count)
      step(:begin) { note("begun", number) }
      step :items, start: 1 do |step|
        (step.cursor..count).each do |item|
          note("item", item)
          sleep ITEM_SECONDS
          step.advance!
        end
      end
      step(:end) { note("ended", number) }
    end
  end
end

# Of a schedule.
class TickJob < ApplicationJob
  def perform = note("tick", 0)
end

# Of a batch: what it has left, when all are done.
class BatchEndJob < ApplicationJob
  def perform(batch, _event) = note("batch", batch.properties[:number], notes_so_far.to_s)

  private

  def notes_so_far = Note.where(kind: "called").count
end
