# frozen_string_literal: true

module Others
  # The parts of Rails' own tests, each a folder of its repository.
  module Rails
    SOURCE = "rails/rails"
    VERSION = "v8.1.3.1"

    # Of Active Record what has to do with connections, transactions, locks and threads.
    RECORD = [*%w[adapter asynchronous_queries batches connection_*
                  database_selector database_statements disconnected fixtures insert_all
                  invalid_connection locking multiple_db pooled_connections
                  prepared_statement_status query_cache query_logs reaper result shard_*
                  statement_* test_fixtures touch_later transaction* unconnected],
              *%w[connection_adapters/** fixture_set/** relation/load_async]]
             .map { |name| "test/cases/#{name.sub("**", "**/*")}_test.rb" }.freeze

    # The adapters of the database, whose name is in the name of the suite.
    ADAPTERS = {
      "mysql2" => %w[mysql2 abstract_mysql_adapter], "postgresql" => %w[postgresql],
      "sqlite3" => %w[sqlite3], "trilogy" => %w[trilogy abstract_mysql_adapter]
    }.freeze

    # Of the suites, by name.
    SERVERS = { "actioncable" => :action_cable, "activejob" => :active_job,
                "activesupport" => :active_support,
                **ADAPTERS.to_h { |name, _| ["activerecord-#{name}", :"active_record_#{name}"] } }
              .freeze

    # Suites of the other parts.
    PATHS = {
      "actioncable" => %w[test/**/*_test.rb],
      # Without tests in a browser.
      "actionpack" => %w[test/{abstract,assertions,controller}/**/*_test.rb test/dispatch/*_test.rb
                         test/dispatch/{request,routing,session}/*_test.rb],
      "activejob" => %w[test/cases/**/*_test.rb],
      "activesupport" => %w[test/*_test.rb] +
                         %w[cache concurrency core_ext messages notifications testing]
                           .map { |name| "test/#{name}/**/*_test.rb" }
    }.freeze

    module_function

    # @param api [String] of the Ruby; 3.1 is too old for this version
    # @return [Array<Suite>]
    def suites(api)
      return [] if api == "3.1"

      parts = PATHS.map { |part, paths| suite(part, part, paths) }
      parts + ADAPTERS.map do |database, adapters|
        paths = adapters.map { |name| "test/cases/adapters/#{name}/**/*_test.rb" }
        suite("activerecord-#{database}", "activerecord", RECORD + paths)
      end
    end

    def suite(name, part, paths)
      Suite.new("rails-#{name}", SOURCE, VERSION, :minitest, paths, SERVERS[name], part,
                "dalli < 5,json < 3,rack-session > 1")
    end
  end
end
