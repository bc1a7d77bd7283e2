# frozen_string_literal: true

require "rails/helper"

# `rails db:…` and dbconsole with our adapters' names.
class RailsTasksTest < Minitest::Test
  { "postgresql" => /CREATE TABLE public\.accounts/, "trilogy" => /CREATE TABLE `accounts`/ }
    .each do |name, structure|
    define_method("test_create_migrate_dump_and_drop_on_#{name}") do
      dump = "#{RailsApp::FOLDER}/#{name}.sql"
      env = { "APP_DATABASE" => "tasks", "SCHEMA" => dump, "SCHEMA_FORMAT" => "sql",
              "DISABLE_DATABASE_ENVIRONMENT_CHECK" => "1" }
      output, status = RailsApp.rails(
        "db:create", "db:migrate", "db:schema:dump", "db:version", "db:drop",
        adapter: "neverblock_#{name}", env: env
      )
      assert status.success?, output
      assert_match(/Created database 'tasks'.*Current version: 2024010200.*Dropped/m, output)
      assert_match(structure, File.read(dump))
    end
  end

  def test_dbconsole
    output, status = RailsApp.rails("dbconsole", "-p", adapter: "neverblock_postgresql",
                                                       input: "SELECT 'an' || 'swer';\n")
    assert status.success?, output
    assert_includes output, "answer"
  end
end
