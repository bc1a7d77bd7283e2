# frozen_string_literal: true

# The small application of the tests. What a test wants otherwise comes by the environment.
$LOAD_PATH.unshift(File.expand_path("../../../../lib", __dir__))
if ENV["APP_BOOTSNAP"]
  gem "rails" # as Bundler would
  gem "prism" if RUBY_VERSION >= "3.3" # of which Ruby has another version
  require "bootsnap"
  Bootsnap.setup(cache_dir: "#{ENV.fetch("APP_FOLDER")}/bootsnap")
end
require "rails"
require "active_record/railtie"
require "active_storage/engine"
require "action_controller/railtie"
require "action_view/railtie"
require "active_job/railtie"
require "action_cable/engine"
require "request_store"
require "rack/timeout/base" if ENV["APP_TIMEOUT"]
require "neverblock" # as Bundler.require would

module TestApp
  class Application < Rails::Application
    config.load_defaults Rails::VERSION::STRING.to_f
    config.root = File.expand_path("..", __dir__)
    config.paths["tmp"] = config.paths["log"] = ENV.fetch("APP_FOLDER", Dir.tmpdir)
    config.secret_key_base = "a" * 64
    config.hosts.clear if config.respond_to?(:hosts)
    config.logger = ActiveSupport::TaggedLogging.new(
      ActiveSupport::Logger.new(ENV.fetch("APP_LOG", File::NULL))
    )
    config.log_tags = [:request_id]
    config.i18n.available_locales = %i[en de fr]
    config.active_job.queue_adapter = :async
    config.active_storage.service = :local
    config.cache_store = :memory_store
    config.action_cable.disable_request_forgery_protection = true
    config.active_support.isolation_level = :thread if ENV["APP_THREADS"]
    if (seconds = ENV["APP_TIMEOUT"])
      config.middleware.use Rack::Timeout, service_timeout: seconds.to_f
    end
    if (words = ENV["APP_LEAVE_OUT"])
      config.neverblock.leave_out = words.split(",").map(&:to_sym)
    end
  end
end
