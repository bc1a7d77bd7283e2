# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require "yaml"
require_relative "postgresql"
require_relative "test_gems"

module Others
  # The Rails applications that tests of Solid Cable, Cache and Queue and of GoodJob bring: their
  # databases, new for each process, with their tables, and the file that names them.
  module Applications
    # Of Solid Cache: the shards, and what leads to the first of them by another way.
    CACHES = { "primary" => "cache", "primary_unprepared_statements" => "cache",
               "primary_replica" => "cache", "primary_shard_one" => "cache1",
               "primary_shard_one_replica" => "cache1", "primary_shard_two" => "cache2",
               "secondary_shard_one" => "cache1s", "secondary_shard_two" => "cache2s" }
             .to_h do |name, database|
      [name, { "database" => "#{database}_test", "replica" => name.end_with?("replica"),
               "prepared_statements" => !name.include?("unprepared") }]
    end.freeze
    SHARDS = { "migrations_paths" => "db/migrate_shards" }.freeze
    # What the file says of each database.
    DATABASES = {
      good_job: { "primary" => { "database" => "good_job_test", "reaping_frequency" => 0 } },
      solid_cable: { "primary" => { "database" => "solid_cable_test" } },
      solid_cache: CACHES,
      solid_queue: {
        "primary" => { "database" => "test", "migrations_paths" => "db/migrate" },
        "shard_one" => { "database" => "test_shard_one", **SHARDS },
        "shard_two" => { "database" => "test_shard_two", **SHARDS },
        "queue" => { "database" => "test_queue", "migrations_paths" => "db/queue_migrate" }
      }
    }.freeze

    # Where an application lies, if not where Rails' generator makes it.
    FOLDERS = Hash.new("test/dummy").merge!(good_job: "demo").freeze

    module_function

    # @param name [Symbol]
    # @param source [String] the folder of the unpacked source
    # @return [Hash] for the process that runs the tests
    def environment(name, source)
      databases = DATABASES.fetch(name)
      settings = PostgreSQL.renew(*databases.values.map { |one| one["database"] }.uniq)
                           .merge("adapter" => "postgresql", "pool" => 20)
      test = databases.transform_values { |one| settings.merge(one) }
      folder = "#{source}/#{FOLDERS[name]}"
      File.write("#{folder}/config/database.yml", YAML.dump("test" => test))
      adapt(folder, name)
      load(folder, source)
      { "RAILS_ENV" => "test" }
    end

    # Nobody compiles assets or has a browser, bootsnap asks Bundler, and what Bundler would load is
    # loaded by itself.
    def adapt(folder, name)
      FileUtils.rm_f(%w[config/initializers/assets.rb ../spec/support/system.rb]
                       .map { |file| "#{folder}/#{file}" })
      change("#{folder}/config/boot.rb", /^ *require .bootsnap.*/, "")
      change("#{folder}/config/application.rb", /^Bundler\.require.*/, "require \"#{name}\"")
    end

    def change(file, words, others) = File.write(file, File.read(file).sub(words, others))

    # Their tables.
    def load(folder, source)
      system(TestGems.environment.merge("RAILS_ENV" => "test"), RbConfig.ruby, "-W0",
             "-I#{source}/lib", "-r#{__dir__}/without_bundler.rb",
             "#{TestGems.of_project}/bin/rake", "--rakefile", "#{folder}/Rakefile",
             "db:schema:load", exception: true)
    end
  end
end
