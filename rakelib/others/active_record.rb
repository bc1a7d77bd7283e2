# frozen_string_literal: true

require "yaml"
require_relative "../../test/support/databases"

module Others
  # The databases of Active Record's own tests, new for each process, and the file that names them.
  module ActiveRecord
    NAMES = { "arunit" => "activerecord_unittest", "arunit2" => "activerecord_unittest2" }.freeze

    module_function

    # @param adapter [String]
    # @param folder [String] of Active Record in the unpacked source
    # @return [Hash] for the process that runs the tests
    def environment(adapter, folder)
      settings = adapter == "postgresql" ? postgresql : mysql
      settings["adapter"] = adapter
      connections = NAMES.to_h { |name, database| [name, settings.merge("database" => database)] }
      connections["arunit_without_prepared_statements"] =
        connections["arunit"].merge("prepared_statements" => false)
      file = "#{folder}/test/config.#{adapter}.yml"
      File.write(file, YAML.dump("connections" => { adapter => connections }))
      { "ARCONN" => adapter, "ARCONFIG" => file }
    end

    def postgresql
      place = Databases.postgresql
      commands = NAMES.values.flat_map do |name|
        ["DROP DATABASE IF EXISTS #{name} WITH (FORCE)", "CREATE DATABASE #{name}"]
      end
      Databases.run(Databases.postgresql_program("psql"), place.url, "-q",
                    input: commands.join(";\n"))
      settings(place).merge("min_messages" => "warning")
    end

    def mysql
      place = Databases.mariadb
      commands = NAMES.values.flat_map do |name|
        ["DROP DATABASE IF EXISTS #{name}", "CREATE DATABASE #{name} CHARACTER SET utf8mb4"]
      end
      Databases.run("mariadb", "--no-defaults", "--host=#{place.host}", "--port=#{place.port}",
                    "--user=#{place.user}", "--password=#{place.password}",
                    input: commands.join(";\n"))
      settings(place).merge("encoding" => "utf8mb4", "collation" => "utf8mb4_unicode_ci",
                            "prepared_statements" => false,
                            "variables" => { "time_zone" => "+00:00" })
    end

    def settings(place) = place.options.except(:database).transform_keys(&:to_s)
  end
end
