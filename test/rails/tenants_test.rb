# frozen_string_literal: true

require "rails/helper"
require "timeout"
require "apartment"
require "acts_as_tenant"

# Gems that keep a tenant per request: Apartment in the search path of the request's connection,
# ActsAsTenant in CurrentAttributes.
class RailsTenantsTest < Minitest::Test
  RailsApp.load("neverblock_postgresql")

  TENANTS = %w[red green blue].freeze
  OWN = Regexp.union(TENANTS)
  REQUESTS = 300
  Apartment.configure do |config|
    config.use_schemas = true
    config.tenant_names = TENANTS
    config.default_tenant = "public"
  end

  # Belongs to the tenant of the acts_as_tenant kind.
  class Owner < ActiveRecord::Base
    self.table_name = "owners"
  end
  ActsAsTenant.set_tenant_klass(:owner)

  class Paint < ActiveRecord::Base
    self.table_name = "paints"
    extend ActsAsTenant::ModelExtensions::ClassMethods
    acts_as_tenant(:owner, class_name: Owner.name)
  end

  def setup
    execute("DROP TABLE IF EXISTS paints, owners",
            "CREATE TABLE owners (id integer PRIMARY KEY, name text)",
            "CREATE TABLE paints (id serial PRIMARY KEY, owner_id integer, name text)")
    TENANTS.each.with_index(1) do |name, id|
      execute("DROP SCHEMA IF EXISTS #{name} CASCADE", "CREATE SCHEMA #{name}",
              "CREATE TABLE #{name}.colours (name text)",
              "INSERT INTO #{name}.colours VALUES ('#{name}')",
              "INSERT INTO owners VALUES (#{id}, '#{name}')")
    end
  end

  def teardown
    execute(*TENANTS.map { |name| "DROP SCHEMA #{name} CASCADE" }, "DROP TABLE paints, owners")
  end

  def execute(*statements)
    ActiveRecord::Base.with_connection { |connection| statements.each { |sql| connection.execute(sql) } }
  end

  # As a request or a job.
  def each_request(concurrency: 60)
    NB.run do
      NB.map(1..REQUESTS, concurrency: concurrency) do |number|
        Rails.application.executor.wrap { yield TENANTS[number % 3], number }
      end
    end
  end

  def colour
    ActiveRecord::Base.connection.select_value("SELECT name FROM colours, pg_sleep(0.002)")
  end

  def path = ActiveRecord::Base.connection.select_value("SHOW search_path")

  def test_a_schema_per_tenant
    each_request do |tenant, _|
      refute_match(OWN, path)
      Apartment::Tenant.switch(tenant) do
        3.times { sleep(0.001) && assert_equal(tenant, colour) }
        assert_equal tenant, Apartment::Tenant.current
      end
      assert_equal "public", Apartment::Tenant.current
    end
  end

  # A timeout strikes at any wait, also in the statements that set the path.
  def test_a_schema_per_tenant_with_timeouts
    cut = 0
    each_request do |tenant, number|
      seen = []
      Timeout.timeout(0.001 * (number % 12)) do
        Apartment::Tenant.switch(tenant) { 3.times { seen << colour } }
      end
    rescue Timeout::Error
      cut += 1
    ensure
      assert_empty seen - [tenant]
    end
    assert_operator cut, :>, REQUESTS / 10
    each_request { |_, _| refute_match(OWN, path) }
  end

  # As a new thread does. Each request holds a connection, and its fiber needs another of twelve.
  def test_fibers_that_a_request_starts_begin_with_the_default_schema
    each_request(concurrency: 6) do |tenant, _|
      Apartment::Tenant.switch(tenant) do
        seen = NB.gather(-> { [Apartment::Tenant.current, path] }).first
        assert_equal "public", seen.first
        refute_match(OWN, seen.last)
        assert_equal tenant, colour
      end
    end
  end

  def test_rows_per_tenant
    each_request do |tenant, number|
      owner = Owner.find_by!(name: tenant)
      ActsAsTenant.with_tenant(owner) do
        Paint.create!(name: "#{tenant} #{number}")
        sleep(0.001)
        assert_equal [owner.id], Paint.distinct.pluck(:owner_id)
      end
      assert_nil ActsAsTenant.current_tenant
    end
    assert_equal REQUESTS, Paint.count
  end

  # What a request starts belongs to its tenant.
  def test_rows_per_tenant_in_fibers_that_a_request_starts
    each_request do |tenant, _|
      ActsAsTenant.with_tenant(Owner.find_by!(name: tenant)) do
        names = NB.gather(*Array.new(3) { -> { sleep(0.001) && ActsAsTenant.current_tenant.name } })
        assert_equal [tenant] * 3, names
      end
    end
  end
end
