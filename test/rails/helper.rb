# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "net/http"
require "open3"
require "socket"
require "tmpdir"
require "support/databases"
require "support/ticker"

# The application of test/rails/app, in this process or in one of its own, and its databases.
module RailsApp
  ROOT = File.expand_path("app", __dir__)
  LIB = File.expand_path("../../lib", __dir__)
  FOLDER = Dir.mktmpdir("nb-rails")
  Minitest.after_run { FileUtils.rm_rf(FOLDER) }

  # Which database each adapter speaks to.
  PLACES = { "postgresql" => :postgresql, "mysql2" => :mariadb, "trilogy" => :mariadb,
             "mysql" => :mariadb }.freeze

  module_function

  # @return [Hash{String => String}] for {ROOT} to find its database
  def environment(adapter, **more)
    kind = PLACES[adapter.delete_prefix("neverblock_")]
    place = kind && Databases.public_send(kind)
    { "APP_ADAPTER" => adapter, "APP_FOLDER" => FOLDER, "APP_DATABASE_PORT" => place&.port&.to_s,
      "RAILS_ENV" => "test", **more.transform_keys(&:to_s) }.compact
  end

  # Loads the application into this process.
  def load(adapter, **more)
    ENV.update(environment(adapter, **more))
    require_relative "app/config/environment"
    # PostgreSQL ends only when its clients have gone.
    Minitest.after_run { ActiveRecord::Base.connection_handler.clear_all_connections!(:all) }
    create_accounts
  end

  def create_accounts
    ActiveRecord::Migration.suppress_messages do
      ActiveRecord::Schema.define do
        drop_table(:accounts, if_exists: true)
        create_table(:accounts) { |t| t.integer(:balance, null: false) and t.text(:note) }
      end
    end
    Account.reset_column_information
    ActiveRecord::Base.connection_handler.clear_active_connections!(:all)
  end

  # Two models of one table for each adapter of a database server, with one connection each.
  #
  # @param home [Module] gets their constants
  # @return [Hash{String => Array(Class, Class)}]
  def pairs(home, table)
    %w[postgresql mysql2 trilogy].to_h do |adapter|
      pair = %w[Row Watch].map do |role|
        name = "#{role}#{adapter.capitalize}"
        base = connect(adapter) { |model| home.const_set(name, model) }
        home.const_set("#{name}s", Class.new(base) { self.table_name = table })
      end
      pair.last.with_connection do |connection|
        connection.create_table(table, force: true) { |columns| columns.text(:name) }
      end
      [adapter, pair]
    end.freeze
  end

  # Rails asks for the name of a class before it connects.
  # @yieldparam model [Class] to be named
  def connect(adapter)
    model = Class.new(ActiveRecord::Base) { self.abstract_class = true }
    yield model
    place = Databases.public_send(PLACES.fetch(adapter))
    model.establish_connection(adapter: "neverblock_#{adapter}", connections: 1, **place.options)
    model
  end

  # Runs a command in the application's folder.
  # @return [Array(String, Process::Status)] what it printed on both channels
  def run(*command, adapter: "neverblock_sqlite3", env: {}, input: "")
    Open3.capture2e(environment(adapter, **env), *command, chdir: ROOT, stdin_data: input)
  end

  # Serves the loaded application on a thread of its own.
  # @yieldparam port [Integer]
  # @yieldparam server [NB::Server]
  def serve(**options)
    require "neverblock/server"
    server = NB::Server.new(Rails.application, bind: "tcp://127.0.0.1:0", log: $stderr, **options)
    started = Thread::Queue.new
    thread = Thread.new { server.run { started << server.port } }
    yield started.pop, server
  ensure
    server&.stop
    thread&.join
  end

  def rails(*words, **options) = run(RbConfig.ruby, "bin/rails", *words, **options)
end
