# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement or an expectation each, better on one line

require "rails/helper"

# What becomes of config/database.yml and DATABASE_URL.
class RailsConfigTest < Minitest::Test
  RailsApp.load("neverblock_sqlite3")

  def test_the_names_of_adapters
    { "postgresql" => "PostgreSQL", "mysql2" => "Mysql2", "trilogy" => "Trilogy", "sqlite3" => "SQLite" }
      .each do |name, title|
      config = config("adapter" => "neverblock_#{name}", "connections" => 7, "database" => "x")
      assert_equal [name, 7, 60.0], settings(config)
      assert_equal title, config.adapter_class::ADAPTER_NAME
      assert_equal config.adapter_class, ActiveRecord::ConnectionAdapters.resolve("neverblock_#{name}")
    end
  end

  def test_mysql_is_trilogy_when_both_are_there
    assert_equal ["trilogy", 12, 60.0], settings(config("adapter" => "neverblock_mysql"))
  end

  def test_an_adapter_of_rails_stays_as_it_is
    assert_equal ["postgresql", 5, 60.0], settings(config("adapter" => "postgresql", "pool" => 5))
    assert_equal ["postgresql", 5, 9.0], settings(config("adapter" => "postgresql", "checkout_timeout" => 9))
    assert_equal ["postgresql", 3, 60.0], settings(config("adapter" => "postgresql", "connections" => 3))
  end

  # Who compares configurations, or hands them to a driver, finds what was written.
  def test_nothing_is_added_to_a_configuration
    written = { "adapter" => "postgresql", "pool" => 5, "database" => "x" }
    assert_equal written.symbolize_keys, config(written).configuration_hash
  end

  def test_addresses
    url = "neverblock-postgresql://a:b@host/base?connections=3&checkout_timeout=7"
    assert_equal ["postgresql", 3, 7.0], settings(config("url" => url))
    ENV["DATABASE_URL"] = url
    assert_equal ["postgresql", 3, 7.0], settings(config("adapter" => "neverblock_sqlite3"))
    ENV["DATABASE_URL"] = "trilogy://a:b@host/base"
    assert_equal ["trilogy", 9, 60.0], settings(config("adapter" => "neverblock_mysql2", "connections" => 9))
  ensure
    ENV.delete("DATABASE_URL")
  end

  def test_an_unknown_adapter
    error = assert_raises(NB::Rails::ConfigurationError) { config("adapter" => "neverblock_oracle") }
    assert_match(/\Aadapter: neverblock_oracle is unknown; there are neverblock_postgresql, .*adapter: oracle, Rails/, error.message)
  end

  def test_no_connections
    ["none", 0, "-1"].each do |number|
      error = assert_raises(NB::Rails::ConfigurationError) { config("adapter" => "neverblock_trilogy", "connections" => number) }
      assert_match(%r{connections: must be 1 or more, got: #{number.inspect}, in config/database.yml:\d+ \(conn}, error.message)
    end
  end

  def test_several_databases_replicas_and_shards
    all = ActiveRecord::DatabaseConfigurations.new(
      "test" => { "primary" => entry, "copy" => entry.merge("replica" => true), "shard" => entry }
    )
    assert_equal %w[primary shard], all.configs_for(env_name: "test").map(&:name)
    copy = all.configs_for(env_name: "test", name: "copy", include_hidden: true)
    assert_equal [true, "sqlite3"], [copy.replica?, copy.adapter]
  end

  # As Rails documents it for an initializer, which runs before ActiveRecord::Base is loaded.
  def test_handlers_of_the_application
    handlers = ActiveRecord::DatabaseConfigurations.db_config_handlers
    kind = Class.new(ActiveRecord::DatabaseConfigurations::HashConfig)
    handler = ->(env, name, _url, config) { kind.new(env, name, config) if config.key?(:vitess) }
    handlers.insert(1, handler) # after Rails' own
    [["postgresql", 5], ["neverblock_postgresql", 12]].each do |name, size|
      found = config("adapter" => name, "vitess" => true)
      assert_instance_of kind, found
      assert_equal ["postgresql", size, 60.0], settings(found)
    end
  ensure
    handlers.delete(handler)
  end

  def test_an_old_rails
    error = assert_raises(NB::Rails::ConfigurationError) { NB::Rails::Railtie.check_version("7.1.5") }
    assert_match(/Rails 7\.1\.5 is too old: NeverBlock needs 7\.2.*`gem "rails"` in the Gemfile/, error.message)
  end

  def test_a_cure_that_is_not_there
    error = assert_raises(NB::Rails::ConfigurationError) { NB::Rails::Cures.install(%i[locale nonsense]) }
    assert_match(/leave_out: unknown cure nonsense; known are share_lock, /, error.message)
  end

  private

  def entry = { "adapter" => "neverblock_sqlite3", "database" => "x" }

  def config(entry)
    ActiveRecord::DatabaseConfigurations.new("test" => entry).configs_for(env_name: "test").first
  end

  def settings(config)
    size = config.respond_to?(:max_connections) ? config.max_connections : config.pool
    [config.adapter, size, config.checkout_timeout]
  end
end
# rubocop:enable Layout/LineLength
