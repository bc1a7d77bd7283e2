# frozen_string_literal: true

require "rbconfig"
require "yaml"
require_relative "postgresql"
require_relative "test_gems"

module Others
  # The databases of Solid Queue's own tests, new for each process, and the file that names them.
  module SolidQueue
    NAMES = { "primary" => "test", "shard_one" => "test_shard_one", "shard_two" => "test_shard_two",
              "queue" => "test_queue" }.freeze
    FOLDERS = { "primary" => "migrate", "queue" => "queue_migrate" }.freeze

    module_function

    # @param folder [String] of the unpacked source
    # @return [Hash] for the process that runs the tests
    def environment(folder)
      settings = PostgreSQL.renew(*NAMES.values).merge("adapter" => "postgresql", "pool" => 20)
      test = NAMES.to_h do |name, database|
        migrations = "db/#{FOLDERS.fetch(name, "migrate_shards")}"
        [name, settings.merge("database" => database, "migrations_paths" => migrations)]
      end
      File.write("#{folder}/test/dummy/config/database.yml", YAML.dump("test" => test))
      load(folder)
      { "RAILS_ENV" => "test" }
    end

    # Their tables.
    def load(folder)
      system(TestGems.environment.merge("RAILS_ENV" => "test"), RbConfig.ruby, "-W0",
             "-r#{__dir__}/without_bundler.rb", "#{TestGems.of_project}/bin/rake",
             "--rakefile", "#{folder}/test/dummy/Rakefile", "db:schema:load", exception: true)
    end
  end
end
