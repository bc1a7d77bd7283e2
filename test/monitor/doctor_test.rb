# frozen_string_literal: true

require "minitest/autorun"
require "fileutils"
require "json"
require "neverblock/monitor/doctor"
require "tmpdir"
require_relative "../support/databases"
require_relative "../support/program"

# `nb doctor` on applications that are really wrong (test/monitor/apps), and on one that is not.
class DoctorTest < Minitest::Test
  APPS = File.join(__dir__, "apps")

  def test_a_wrong_rails_application
    examine("wrong_rails", "--workers", "100")

    assert_finding "isolation", :problem, "is :thread", "delete that line"
    assert_includes what("isolation"), "config/application.rb:15"
    assert_finding "concurrency", :problem, "Rack::Lock", "allow_concurrency"
    assert_finding "timeouts", :warning, "rack-timeout", "request_timeout"
    assert_finding "adapter", :problem, "config/database.yml:7", "neverblock_postgresql"
    assert_finding "pool", :warning, "primary: 5 connections for 1024 fibers", "connections:"
    assert_finding "max_connections", :problem, "500; the database allows 300", "pgbouncer"
    assert_finding "puma", :problem, "config/puma.rb:4", "delete the line"
    assert_finding "hiredis", :problem, "config/application.rb:18", "driver: :ruby"
    assert_equal 1, @status
  end

  def test_a_bundle
    examine("bundle")

    assert_equal ["argon2 2.3.3", "bcrypt 3.1.22", "hiredis 0.6.3", "tiny_tds 3.4.1"],
                 findings("gems").map { |finding| finding["what"][/\A[^:]+/] }.sort
    assert_finding "gems", :problem, "tiny_tds", "NB.offload { }"
    assert_finding "gems", :note, "bcrypt", "nothing to do"
    assert_finding "gems", :warning, "argon2", "NB.offload { }"
    assert_empty findings("timeouts"), "nb serve has the cure"
    assert_finding "active record", :note, "belong to fibers", "connections: 12"
    refute_includes @checks, "rails"
    assert_equal 1, @status
  end

  def test_the_dataloader_of_graphql
    lock = "GEM\n  specs:\n    graphql (2.6.14)\n"
    lines = ["use GraphQL::Dataloader", "use GraphQL::Dataloader, nonblocking: true",
             "use GraphQL::Dataloader::AsyncDataloader", "use(GraphQL::Dataloader, fiber_limit: 9)"]
    folder("Gemfile.lock" => lock, "schema.rb" => lines.join("\n")) { |path| examine(path) }

    assert_finding "dataloader", :problem, "schema.rb:1: ", "AsyncDataloader"
    assert_finding "dataloader", :problem, "schema.rb:4: ", "nonblocking: true"
    assert_equal 2, findings("dataloader").size
  end

  # Its driver is replaced in a loop.
  def test_hiredis_of_redis_client
    lock = "GEM\n  specs:\n    hiredis-client (0.31.0)\n"
    code = ["Redis.new(driver: :hiredis)", "RedisClient.default_driver = :hiredis",
            %(x = {"driver" => "hiredis"})].join("\n")
    folder("redis.rb" => code) { |path| examine(path) }

    assert_equal(["redis.rb:1", "redis.rb:2", "redis.rb:3"], places("hiredis"))
    assert_finding "hiredis", :problem, "redis.rb:1", "driver: :ruby"
    folder("Gemfile.lock" => lock, "redis.rb" => code) { |path| examine(path) }

    assert_finding "hiredis", :warning, "before the loop runs", "driver: :ruby"
    assert_equal 0, @status
  end

  def test_gems_whose_cure_does_not_know_their_version
    lock = "GEM\n  specs:\n    connection_pool (2.2.5)\n    dalli (5.0.6)\n    sequel (5.110.0)\n"
    folder("Gemfile.lock" => lock) { |path| examine(path) }

    assert_finding "drivers", :warning, "connection_pool 2.2.5: its cure is unsupported", "docs"
    assert_equal 1, findings("drivers").size
    folder("Gemfile.lock" => lock) { |path| examine(path, env: { "NB_DRIVERS" => "-dalli" }) }

    assert_finding "drivers", :warning, "dalli 5.0.6: its cure is off", "NB_DRIVERS"
  end

  # The options may stand on other lines, in a file of settings, or in a URL there.
  def test_a_pool_of_sequels
    lock = "GEM\n  specs:\n    sequel (5.110.0)\n"
    files = {"Gemfile.lock" => lock, "db.rb" => "DB = Sequel.connect(URL,\n  logger: LOG)\n"}
    folder(files) { |path| examine(path) }

    assert_finding "sequel", :warning, "db.rb:1: ", "pool_timeout: 30"
    assert_includes what("sequel"), "1024 fibers share 4 connections, and a request that waits 5 s"
    [{"db.rb" => "Sequel.connect(URL,\n  max_connections: 12, pool_timeout: 30)"},
     {"config/db.yml" => "max_connections: 12\npool_timeout: 30\n"},
     {".env" => "DATABASE_URL=postgres:///a?max_connections=12&pool_timeout=30\n"}].each do |more|
      folder(files.merge(more)) { |path| examine(path) }
      assert_empty findings("sequel")
    end
    half = files.merge("db.rb" => "Sequel.connect(URL, max_connections: 12)")
    folder(half) { |path| examine(path) }

    assert_finding "sequel", :warning, "without pool_timeout, a request", "pool_timeout: 30"
    folder("db.rb" => files["db.rb"]) { |path| examine(path) }

    refute_includes @checks, "sequel"
  end

  def test_a_version_that_waits_by_itself
    %w[0.14.0 1.0.0].zip([1, 0]) do |version, notes|
      folder("Gemfile.lock" => "GEM\n  specs:\n    patron (#{version})\n") { |path| examine(path) }
      assert_equal notes, findings("gems").size, version
    end
  end

  def test_a_bulkhead
    folder("Gemfile.lock" => "GEM\n  specs:\n    semian (0.28.2)\n") { |path| examine(path) }

    assert_finding "gems", :warning, "semian 0.28.2: ", "NB::Limiter"
  end

  def test_a_lock_file_of_another_system
    folder("Gemfile.lock" => "GEM\r\n  specs:\r\n    hiredis (0.6.3)\r\n") { |path| examine(path) }

    assert_finding "gems", :problem, "hiredis 0.6.3", "remove it"
  end

  # Other folders than app, config and lib, if it is an application; not what no server runs.
  def test_code_in_any_folder
    line = "Thread.current.thread_variable_set(:x, 1)\n"
    files = %w[models/a.rb packs/pay/app/docs/b.rb web.rb spec/c.rb vendor/d.rb packs/pay/spec/e.rb]
    found = %w[web.rb:1 models/a.rb:1 packs/pay/app/docs/b.rb:1]
    folder("config.ru" => "", **files.to_h { |name| [name, line] }) { |path| examine(path) }

    assert_equal found, places("thread variables")
    folder(files.to_h { |name| [name, line] }) { |path| examine(path) }

    assert_equal %w[web.rb:1], places("thread variables")
  end

  def test_what_tells_about_a_thread_itself
    code = "t.thread_variable_set(:fork_safe, true)\nt.respond_to?(:thread_variable_set)\n" \
           "t.send(:thread_variable_set, :fork_safety, 1)\n"
    folder("config.ru" => "", "app/a.rb" => code) { |path| examine(path) }

    assert_equal %w[app/a.rb:3], places("thread variables")
  end

  def test_a_folder_whose_name_looks_like_a_pattern
    folder("{a}[1]/app/x.rb" => "CLIENTS[Thread.current] ||= 1\n",
           "{a}[1]/Gemfile.lock" => "GEM\n  specs:\n    hiredis (0.6.3)\n") do |path|
      examine("#{path}/{a}[1]")
    end

    assert_equal %w[app/x.rb:1], places("thread variables")
    assert_finding "gems", :problem, "hiredis 0.6.3", "remove it"
  end

  # What it finds there was put there by the default, or by another line.
  def test_a_hash_with_a_default_for_each_thread
    code = ["A = Hash.new { |all, thread| all[thread] = {} }", "A[Thread.current][:user] = 1",
            "A[ Thread.current ].clear", "A.fetch_or_store(Thread.current) { 1 }",
            "threads = [Thread.current]", "Thread.list - [Thread.current]",
            "[Thread.current].each(&:join)", "A[Thread.current] == 1"]
    folder("x.rb" => code.join("\n")) { |path| examine(path) }

    assert_equal %w[x.rb:2 x.rb:3 x.rb:4], places("thread variables")
  end

  def test_groups_of_the_environment
    examine("bundle", env: { "RACK_ENV" => "test" })

    assert_finding "gems", :note, "typhoeus 1.7.1", "Net::HTTP"
  end

  def test_active_record_without_its_driver
    examine("bundle", env: { "NB_DRIVERS" => "-active_record,-rack-timeout" })

    assert_finding "active record", :problem, "activerecord 8.1.4", "NB_DRIVERS"
    assert_finding "timeouts", :warning, "rack-timeout", "request_timeout"
  end

  def test_a_gemfile_without_a_lock
    folder("Gemfile" => %(gem "hiredis"\ngem "typhoeus", group: :test\n)) { |path| examine(path) }

    assert_finding "gems", :problem, "hiredis: ", "remove it"
    assert_finding "bundle", :warning, "no lock file", "bundle lock"
    assert_equal 1, findings("gems").size
    assert_equal 1, @status
  end

  def test_a_gemfile_that_cannot_be_read
    lock = File.read(File.join(APPS, "wrong_rack/Gemfile.lock"))
    folder("Gemfile" => "gem(", "Gemfile.lock" => lock) { |path| examine(path) }

    assert_finding "bundle", :warning, "cannot be read", "bundle lock"
    assert_finding "gems", :warning, "hiredis-client 0.31.0", "remove it"
  end

  def test_gems_of_a_booted_application
    gems = %(source "https://gems.invalid"\n) + # all are installed
           %(gem "rails"\ngem "pg"\ngroup(:test) { gem "typhoeus" }\ngem "bcrypt"\n)
    Dir.mktmpdir do |path|
      FileUtils.cp_r(File.join(APPS, "good_rails/."), path)
      environment = File.join(path, "config/environment.rb")
      File.write(environment, %(require "bundler/setup"\n) + File.read(environment))
      File.write(File.join(path, "Gemfile"), gems)
      examine(path)
    end

    assert_equal ["bcrypt"], findings("gems").map { |finding| finding["what"][/\A\S+/] }
    assert_empty @findings.reject { |finding| finding["level"] == "note" }
    assert_equal 0, @status
  end

  # From 8.3.1 on Bullet keeps a request's state in fiber storage; for Ruby 3.1, in the thread.
  def test_a_gem_that_uses_the_thread_only_where_fibers_have_no_storage
    assert_equal ["bullet 8.3.0"], of_bullet("8.3.0")
    assert_equal RUBY_VERSION < "3.2" ? ["bullet 8.3.1"] : [], of_bullet("8.3.1")
  end

  def test_an_empty_folder
    folder({}) do |path|
      examine(path)
      out, = Program.nb("doctor", path)

      assert_match(/^- not applicable: .*config.*puma.*rails/, order(out))
      refute_match(/^✓.*\b(rails|puma|config|gems|hiredis)\b/, out)
    end

    assert_empty @checks & ["rails", "puma", "config", "gems", "hiredis", "timeouts", "adapter"]
    assert_includes @others, "puma"
  end

  def test_warnings_fail_only_if_strict
    lock = "GEM\n  specs:\n    bcrypt (3.1.17)\n"
    folder("Gemfile.lock" => lock) do |path|
      examine(path)

      assert_finding "gems", :warning, "bcrypt 3.1.17", "3.1.18"
      assert_equal 0, @status
      examine(path, "--strict")

      assert_equal 1, @status
    end
  end

  def test_what_is_not_looked_at_without_booting
    out, = Program.nb("doctor", "--no-boot", File.join(APPS, "good_rails"))

    assert_match(/^- not checked without booting: .*\bisolation\b.*\bpool\b/, order(out))
    refute_match(/^✓.*\b(isolation|pool)\b/, out)
  end

  def test_a_rails_application_as_it_should_be
    examine("good_rails")

    assert_empty(@findings.reject { |finding| finding["level"] == "note" })
    assert_includes @checks, "isolation"
    assert_equal 0, @status
  end

  def test_a_rails_application_that_does_not_boot
    examine("broken_rails")

    assert_finding "boot", :problem, "NoSuchMiddleware", "config/environment"
  end

  def test_a_wrong_project_without_rails
    examine("wrong_rack")

    assert_finding "gems", :warning, "hiredis-client 0.31.0", "remove it"
    assert_finding "gems", :note, "typhoeus 1.7.1", "Net::HTTP"
    assert_finding "active record", :problem, "app/database.rb:3", "7.2"
    assert_finding "thread variables", :problem, "app/current.rb:5", "Thread.current[:name]"
    assert_finding "stacks", :warning, "100000 fibers", "vm.max_map_count"
    assert_finding "config", :problem, "request_timeout", "docs/SERVER.md"
    assert_finding "thread variables", :problem, "app/current.rb:12: Thread", "Thread.current[:"
    assert_finding "thread variables", :problem, "app/current.rb:16: attr_", "CurrentAttributes"
    assert_finding "thread variables", :problem, "app/current.rb:22: def", "NB::ConnectionPool"
    assert_equal 4, findings("thread variables").size
    refute_includes @checks, "rails"
    refute_includes @checks, "isolation"
  end

  # They ask other parts whether the value is a good one.
  def test_each_setting_of_the_file
    settings = [%(page "/ops/loop", password: "x"), "blocking #{RUBY_VERSION >= "3.2"}",
                "worker_timeout 30", %(control "unix:///x"), "collect_when_idle false"]
    settings.each do |text|
      folder("config/neverblock.rb" => text) { |path| examine(path) }
      assert_empty findings("config"), text
    end
    folder("config/neverblock.rb" => "page 5") { |path| examine(path) }

    assert_finding "config", :problem, "page: must be a path", "SERVER"
  end

  def test_limits_of_this_process
    examine("good_rails", "--no-boot", "--workers", "900", prefix: %w[prlimit --nofile=64:256])

    assert_finding "files", :warning, "64 open files", "LimitNOFILE"
    assert_finding "processor", :warning, "900 processes", "one per core"
  end

  def test_an_application_that_computes_for_long_while_it_boots
    assert_equal({ "rails" => "8" }, child(1.0).ask(<<~'RUBY'))
      nil until Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) > 1.1
      puts '{"rails": "8"}'
    RUBY
  end

  def test_an_application_that_waits_for_ever_while_it_boots
    assert_equal "it has done nothing for 0.5 s", child(0.5).ask("sleep")
  end

  def test_checks_can_be_left_out
    examine("wrong_rack", "--except", "gems,rails,active record,thread variables,stacks,config," \
                                    "timeouts")

    assert_empty(@findings.reject { |finding| finding["level"] == "note" })
    assert_equal 0, @status
  end

  def test_in_words
    out, = Program.nb("doctor", File.join(APPS, "wrong_rack"))

    assert_match(/^! gems: hiredis-client 0\.31\.0: .+\n  → remove it/, out)
    assert_match(/^\d+ problems, \d+ warnings?/, out.lines.last)
  end

  def test_a_wrong_command_line
    { %w[nowhere] => "no such folder: nowhere", %w[--except hiss] => "unknown check hiss",
      %w[one two] => "takes one folder, got: one two" }.each do |arguments, message|
      _, errors, status = Program.nb("doctor", *arguments)

      assert_includes errors, message
      assert_equal 2, status.exitstatus
    end
  end

  private

  # What is found in a gem of this version that is installed in a folder of its own.
  def of_bullet(version)
    files = { "lib/bullet.rb" => "Thread.current.thread_variable_get(:bullet_state)\n" }
    Dir.mktmpdir do |home|
      FileUtils.mkpath(["#{home}/gems/bullet-#{version}/lib", "#{home}/specifications"])
      files.each { |name, text| File.write("#{home}/gems/bullet-#{version}/#{name}", text) }
      specification = Gem::Specification.new("bullet", version) do |gem|
        gem.summary = gem.authors = "x"
        gem.files = files.keys
      end
      File.write("#{home}/specifications/bullet-#{version}.gemspec", specification.to_ruby)
      paths = [home, *Gem.path].join(":")
      folder("Gemfile.lock" => "GEM\n  specs:\n    bullet (#{version})\n") do |path|
        examine(path, env: { "GEM_PATH" => paths })
      end
    end
    findings("thread variables").map { |finding| finding["what"][/\A\S+ \S+/] }
  end

  def child(patience) = NB::Doctor::Child.new(Dir.tmpdir, patience: patience)

  def examine(app, *options, prefix: [], env: {})
    environment = { "DOCTOR_DATABASE" => Databases.postgresql.url, "RACK_ENV" => nil,
                    "RAILS_ENV" => nil, **env }
    out, errors, status = Open3.capture3(environment, *prefix, *Program::NB, "doctor", "--json",
                                         *options, File.expand_path(app, APPS))
    assert_empty errors
    @status = status.exitstatus
    @findings, @checks, @others = JSON.parse(out).values_at("findings", "checks", "not_applicable")
  end

  # Yields a folder with these files.
  def folder(files)
    Dir.mktmpdir do |path|
      files.each do |name, text|
        FileUtils.mkpath(File.dirname(File.join(path, name)))
        File.write(File.join(path, name), text)
      end
      yield path
    end
  end

  # Each line with its names sorted.
  def order(text)
    text.gsub(/(?<=: ).*/) { |names| names.split(", ").sort.join(", ") }
  end

  def findings(check) = @findings.select { |finding| finding["check"] == check }

  # @return [Array<String>] the lines that they name
  def places(check) = findings(check).map { |finding| finding["what"][/\A.+?:\d+/] }

  def what(check) = findings(check).map { |finding| finding["what"] }.join("\n")

  def assert_finding(check, level, what, cure) # rubocop:disable Metrics/ParameterLists
    found = findings(check).find { |finding| finding["what"].include?(what) }
    assert found, "#{check}: no #{what.inspect} in #{@findings}"
    assert_equal level.to_s, found["level"]
    assert_includes found["cure"], cure
  end
end
