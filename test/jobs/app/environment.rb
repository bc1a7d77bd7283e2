# frozen_string_literal: true

# The small application of the tests of job queues, in one file. What a test wants otherwise comes
# by the environment.
$LOAD_PATH.unshift(File.expand_path("../../../lib", __dir__))
require "rails"
require "active_record/railtie"
require "active_job/railtie"
require "net/http"
require ENV["APP_SENTRY"] ? "sentry-rails" : "sentry-ruby"
require "neverblock" unless ENV["APP_WITHOUT"]
require_relative "unborn" if ENV["APP_UNBORN"]
APP_QUEUE = ENV.fetch("APP_QUEUE", "solid_queue")
require APP_QUEUE
require "sidekiq/rails" if APP_QUEUE == "sidekiq"

module JobsApp
  class Application < Rails::Application
    config.load_defaults Rails::VERSION::STRING.to_f
    config.root = ENV.fetch("APP_ROOT", __dir__)
    config.paths["log"] = ENV.fetch("APP_LOG", File::NULL)
    config.paths["config/database"] = File.join(__dir__, "database.yml")
    config.secret_key_base = "a" * 64
    config.eager_load = false
    config.logger = ActiveSupport::TaggedLogging.new(
      ActiveSupport::Logger.new(ENV.fetch("APP_LOG", File::NULL))
    )
    config.i18n.available_locales = %i[en de fr]
    config.active_job.queue_adapter = APP_QUEUE.to_sym
    config.neverblock.enabled = false if ENV["APP_DISABLED"]
    config.active_support.isolation_level = ENV["APP_LEVEL"].to_sym if ENV["APP_LEVEL"]
    if APP_QUEUE == "good_job"
      config.good_job.execution_mode = :external
      config.good_job.cron = { tick: { cron: "* * * * * *", class: "TickJob" } }
    end
    if APP_QUEUE == "solid_queue"
      config.solid_queue.connects_to = { database: { writing: :queue } } if
        ENV["APP_QUEUE_CONNECTIONS"]
      config.solid_queue.shutdown_timeout = ENV.fetch("APP_SHUTDOWN", "5").to_f.seconds
      config.solid_queue.process_heartbeat_interval = 0.5.seconds
      config.solid_queue.process_alive_threshold = ENV.fetch("APP_ALIVE", "60").to_f.seconds
    end
  end
end

GoodJob::CLI.log_to_stdout = false if defined?(GoodJob::CLI)
Rails.application.initialize!

class Current < ActiveSupport::CurrentAttributes
  attribute :person
end

# Two pools to one database.
class Shard < ActiveRecord::Base
  self.abstract_class = true
  connects_to shards: { default: { writing: :primary }, other: { writing: :other } }
end

# What jobs have done.
class Note < ActiveRecord::Base; end

Sentry.init do |config|
  config.background_worker_threads = 0
  next unless ENV["APP_SENTRY"]

  config.dsn = "http://key@127.0.0.1:9/1"
  config.transport.transport_class = Sentry::DummyTransport
  config.before_send = lambda do |_event, hint|
    Note.create!(kind: "sentry", number: 0, pid: Process.pid, text: hint[:exception].class) && nil
  end
end

# What was reported to Rails.error, such as by Solid Queue's on_thread_error.
class Reports
  def report(error, handled:, **)
    Note.create!(kind: "reported", number: 0, pid: Process.pid,
                 text: "#{error.class}: #{error.message} (handled: #{handled})")
  end
end
Rails.error.subscribe(Reports.new)

require_relative "jobs"

if (fibers = ENV["APP_SIDEKIQ_FIBERS"])
  Sidekiq.configure_server { |config| config[:fibers] = fibers }
end

# With this, Sidekiq has two sets of processors.
if ENV["APP_CAPSULES"]
  # Notes the queue of each job that passes.
  class Turnstile
    include Sidekiq::ServerMiddleware

    def call(_job, _hash, queue)
      Note.create!(kind: "through", number: 0, pid: Process.pid, text: queue)
      yield
    end
  end

  Sidekiq.configure_server do |config|
    config.server_middleware { |chain| chain.add(Turnstile) }
    config.capsule("other") do |capsule|
      capsule.concurrency = 5 unless ENV["APP_CAPSULES"] == "none"
      capsule.queues = %w[other]
    end
  end
end

# Solid Queue tells of its workers' ends by itself.
if ENV["APP_EXIT_NOTE"]
  at_exit do
    stat = ActiveRecord::Base.connection_pool.stat
    Note.create!(kind: "exit", number: 0, pid: Process.pid,
                 text: "threads #{Thread.list.count}, busy #{stat[:busy]}, dead #{stat[:dead]}, " \
                       "connections #{stat[:connections]}")
  end
end
