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

# Has state of its own, and looks at it again after others had their turns.
class StateJob < ApplicationJob
  def perform(number)
    found = state
    I18n.locale = %i[en de fr][number % 3]
    Current.person = Thread.current[:number] = number
    mine = state
    3.times do
      sleep 0.05
      ActiveRecord::Base.connection_pool.with_connection { |one| one.select_value("SELECT 1") }
      note("mixed", number, "#{mine} became #{state}") unless state == mine
    end
    note("state", number, found.inspect)
  end

  def state = [I18n.locale, Current.person, Thread.current[:number]]
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
    ActiveRecord::Base.transaction do
      note("half", number)
      sleep seconds
    end
    ended = note("ended", number, "at once")
  ensure
    note("tidied", number) unless ended
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

# One at a time.
class LimitedJob < ApplicationJob
  limits_concurrency to: 1, key: "all", duration: 1.minute if respond_to?(:limits_concurrency)

  def perform(number)
    note("enter", number)
    sleep 0.02
    note("leave", number)
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
