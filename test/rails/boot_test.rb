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

  # What pgbouncer does: the process id that clients get is made up.
  def test_behind_a_proxy_the_database_has_no_say
    log = File.join(RailsApp::FOLDER, "proxied.log")
    proxy = Proxy.new(Databases.postgresql.port)
    output, status = RailsApp.run(RbConfig.ruby, "-e", LOAD_SERVER, adapter: "neverblock_postgresql",
      env: { "APP_CONNECTIONS" => "3000", "APP_DATABASE_PORT" => proxy.port.to_s, "APP_LOG" => log, "PGSSLMODE" => "disable" })
    assert status.success?, output
    assert_match(/primary: 3000 connections/, File.read(log))
  ensure
    proxy&.close
  end

  # PostgreSQL's messages go by it, but for BackendKeyData.
  class Proxy
    attr_reader :port

    def initialize(target)
      @server = TCPServer.new("127.0.0.1", 0)
      @port = @server.local_address.ip_port
      @thread = Thread.new { loop { serve(@server.accept, TCPSocket.new("127.0.0.1", target)) } }
    end

    def close = [@thread.kill.join, @server.close]

    private

    def serve(client, server)
      Thread.new { IO.copy_stream(client, server) }
      Thread.new do
        loop { client << server.readpartial(65_536).b.sub(/K\0\0\0\x0c.{8}/mn) { |key| "#{key[0, 5]}#{[1].pack("N")}#{key[9..]}" } }
      rescue IOError, SystemCallError
        client.close
      end
    end
  end

  OFF = <<~'RUBY'
    require "rails"
    %w[active_record action_controller action_view active_job].each { |name| require "#{name}/railtie" }
    require "action_controller/metal/live"
    require "neverblock" unless ARGV[0] == "plain"
    class Small < Rails::Application
      config.root = ENV.fetch("APP_FOLDER") # no configuration there
      config.eager_load = false
      config.logger = Logger.new(nil)
      config.secret_key_base = "a" * 64
      config.neverblock.enabled = false if ARGV[0] == "off"
    end
    ENV["DATABASE_URL"] = Small.config.respond_to?(:neverblock) && Small.config.neverblock.enabled ? ARGV[1] : ARGV[1].delete_prefix("neverblock-")
    Rails.application.initialize!
    [ActionController::Base, ActiveRecord::Base.connection.class, ActiveJob::QueueAdapters::AsyncAdapter::Scheduler]
    state = ActiveSupport::IsolatedExecutionState
    p [state.isolation_level, state.scope, ActiveRecord.async_query_executor, ActiveRecord::Base.connection_db_config.checkout_timeout,
       ActiveSupport::Concurrency::ShareLock.const_defined?(:Thread, false),
       (ActiveRecord::ConnectionAdapters.resolve("neverblock_mysql2") rescue $!.class)]
    p Rails.application.middleware.map(&:name)
    puts Patches.all.grep_v(/\A(#<Class:(Process|Kernel)>|Kernel#|Timeout|ConnectionPool|Concurrent::)/) if defined?(NB)
  RUBY

  # Ruby's own and the other libraries' are the matter of NB_REPAIRS and NB_DRIVERS.
  def test_switched_off_it_leaves_rails_as_it_comes
    on, off, plain = %w[on off plain].map do |how|
      output, status = RailsApp.run(RbConfig.ruby, "-I#{__dir__}/..", "-I#{RailsApp::LIB}", "-rsupport/patches", "-e", OFF, "--",
                                    how, "neverblock-#{Databases.postgresql.url}")
      assert status.success?, output
      output
    end
    assert_equal plain, off
    assert_match(/\A\[:fiber/, on)
    assert_equal 2, on.scan("NB::Rails::RefusedBody").size
    assert_operator on.lines.size, :>, 10
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

  # As under `nb serve`: NeverBlock comes before Rails, and Bootsnap before both.
  def test_before_rails_with_bootsnap
    script = 'require "./config/environment"; print ActiveSupport::IsolatedExecutionState.isolation_level'
    output, status = RailsApp.run(RbConfig.ruby, "-W0", "-I#{RailsApp::LIB}", "-rneverblock", "-e", script,
                                  env: { "APP_BOOTSNAP" => "1" })
    assert status.success?, output
    assert_equal "fiber", output
  end

  def test_after_the_initializers_have_begun
    plain = WITHOUT_DATABASE.sub('require "neverblock"', "")
    early = plain.sub("config.eager", "initializer('late') { require 'neverblock' }; config.eager")
    [plain, early].each do |program|
      script = "require 'neverblock'; begin; NB.run { }; rescue NB::Error; puts $!; end"
      output, = RailsApp.run(RbConfig.ruby, "-I#{RailsApp::LIB}", "-e", program + script)
      assert_match(/isolation_level is :thread.*was loaded after Rails' initializers had begun\. Put `gem "neverblock"`/, output)
    end
    per_fiber = plain.sub("config.eager", "config.active_support.isolation_level = :fiber; config.eager")
    output, status = RailsApp.run(RbConfig.ruby, "-I#{RailsApp::LIB}", "-e", "#{per_fiber}; require 'neverblock'; NB.run { p 1 }")
    assert status.success?, output
    assert_equal "fiber\n1\n", output
  end

  # With NeverBlock's part for Rails switched off, only threads keep requests apart.
  def test_switched_off_nobody_serves_it_in_fibers
    rackup = File.join(RailsApp::FOLDER, "small.ru")
    File.write(rackup, "#{WITHOUT_DATABASE}\nrun Rails.application")
    [[File.expand_path("../../exe/nb", __dir__), "serve"], [Gem.bin_path("puma", "puma")]].each do |words|
      output, status = RailsApp.run("timeout", "60", RbConfig.ruby, "-W0", "-I#{RailsApp::LIB}", *words, "-b", "tcp://127.0.0.1:0",
                                    rackup, env: { "NB_DRIVERS" => "-rails" })
      assert_equal 1, status.exitstatus, output
      assert_match(/Rails keeps its state per thread, so requests in fibers would share/, output)
      refute_match(/fiber_pool|launcher/, output, "a backtrace around the sentence")
    end
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
