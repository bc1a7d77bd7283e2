# frozen_string_literal: true

require_relative "registry"
# One line per library.
require_relative "active_record"
require_relative "active_support"
require_relative "async"
require_relative "connection_pool"
require_relative "dalli"
require_relative "datadog"
require_relative "ethon"
require_relative "grpc"
require_relative "hiredis_client"
require_relative "i18n"
require_relative "mysql2"
require_relative "net_http"
require_relative "newrelic"
require_relative "openssl"
require_relative "opentelemetry"
require_relative "patron"
require_relative "rack_timeout"
require_relative "rails"
require_relative "sequel"
require_relative "sentry"
require_relative "sidekiq"
require_relative "solid_queue"
require_relative "sqlite3"

NB::Drivers.complete
