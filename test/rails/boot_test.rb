# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement or an expectation each, better on one line

require "rails"
require "rails/helper"

# What an application finds when it starts: as it should be, or told which line to change.
class RailsBootTest < Minitest::Test
  parallelize_me!

  def test_isolation_per_thread_is_refused_with_its_line
    output = failing(env: { "APP_THREADS" => "1" })
    assert_match(%r{isolation_level is :thread.*change config/application.rb:\d+ \(config.active_s}, output)
  end

  def test_more_connections_than_the_database_has
    %w[postgresql trilogy].each do |name|
      output = serve_and_fail(adapter: "neverblock_#{name}", env: { "APP_CONNECTIONS" => "3000" })
      assert_match(/connections: 3000 of primary is more than its database allows.*max_connections is 300/, output)
      assert_match(%r{lower config/database.yml:\d+ \(connections: }, output)
    end
  end

  def test_one_line_in_the_log_explains_the_sizes
    log = File.join(RailsApp::FOLDER, "sizes.log")
    output, status = RailsApp.run(RbConfig.ruby, "-e", LOAD_SERVER,
                                  adapter: "neverblock_postgresql", env: { "APP_LOG" => log })
    assert status.success?, output
    assert_equal 1, File.readlines(log).grep(/NeverBlock:.+primary: 12 connections, a request waits up to 60 s/).size
  end

  WITHOUT_DATABASE = <<~RUBY
    require "rails"
    require "action_controller/railtie"
    require "neverblock"
    class Small < Rails::Application
      config.root = ENV.fetch("APP_FOLDER") # no configuration there
      config.eager_load = false
      config.logger = Logger.new(nil)
      config.secret_key_base = "a" * 64
    end
    Rails.application.initialize!
    Rails.application.load_server
    puts ActiveSupport::IsolatedExecutionState.isolation_level
  RUBY

  def test_an_application_without_active_record
    output, status = RailsApp.run(RbConfig.ruby, "-I#{RailsApp::LIB}", "-e", WITHOUT_DATABASE)
    assert status.success?, output
    assert_equal "fiber\n", output
  end

  RUNNER = <<~'RUBY'
    ask = ->(number) { Account.with_connection { |c| c.select_value("SELECT #{number}") } }
    p [NB.running?, ActiveSupport::IsolatedExecutionState.isolation_level, NB.gather(-> { ask[1] }, -> { ask[2] })]
  RUBY

  def test_the_runner_under_the_loop
    output, status = nb_run("bin/rails", "runner", RUNNER)
    assert status.success?, output
    assert_equal "[true, :fiber, [1, 2]]", output.lines.last.chomp
  end

  def test_rake_under_the_loop
    output, status = nb_run(Gem.bin_path("rake", "rake"), "db:version")
    assert status.success?, output
    assert_match(/Current version: 0/, output)
  end

  private

  # What config.ru does.
  LOAD_SERVER = 'require "./config/environment"; Rails.application.load_server'

  def failing(**options)
    output, status = RailsApp.rails("runner", "1", **options)
    refute status.success?, output
    output
  end

  def serve_and_fail(**options)
    output, status = RailsApp.run(RbConfig.ruby, "-e", LOAD_SERVER, **options)
    refute status.success?, output
    output
  end

  def nb_run(*command)
    RailsApp.run(RbConfig.ruby, "-I#{RailsApp::LIB}", File.expand_path("../../exe/nb", __dir__), "run", *command)
  end
end
# rubocop:enable Layout/LineLength
