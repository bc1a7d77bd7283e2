# frozen_string_literal: true

# The application of the tables of jobs: three kinds, each of which leaves a row. BENCH_QUEUE is the
# queue, BENCH_SERVICE the URL of a service that answers after `?ms=`.

require "net/http"
require_relative "../../served/rails_settings"
require "active_job/railtie"
require ENV.fetch("BENCH_QUEUE")
require "sidekiq/rails" if defined?(Sidekiq)

# Its settings; the database comes by DATABASE_URL.
class BenchJobs < Rails::Application
  RailsSettings.apply(config, __dir__)
  config.active_job.queue_adapter = ENV.fetch("BENCH_QUEUE").to_sym
end

BenchJobs.initialize!
ActiveJob::Base.logger = nil

# What a job leaves: when it began and ended, in seconds of the monotonic clock.
class Row < ActiveRecord::Base; end

# Runs a job, and leaves its row.
class TimedJob < ActiveJob::Base
  def perform(milliseconds)
    began = now
    work(milliseconds)
    Row.create!(began: began, ended: now)
  end

  private

  def check(text) = text == "done" || raise("the service answers #{text.inspect}")
  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# Asks a slow service once.
class CallJob < TimedJob
  private

  def work(milliseconds)
    check(Net::HTTP.get(URI("#{ENV.fetch("BENCH_SERVICE")}?ms=#{milliseconds}")))
  end
end

# Waits for a service every 20 ms, as for the words of a language model.
class StreamJob < TimedJob
  private

  def work(milliseconds)
    uri = URI(ENV.fetch("BENCH_SERVICE"))
    Net::HTTP.start(uri.host, uri.port) do |http|
      (milliseconds / 20).times { check(http.get("/?ms=20").body) }
    end
  end
end

# Computes for so long, in CPU time of its own.
class ComputeJob < TimedJob
  # Square roots that take a millisecond on the machines we have.
  ROOTS = 12_000
  private_constant :ROOTS

  private

  def work(milliseconds) = (milliseconds * ROOTS).times { |number| Integer.sqrt(number) }
end
