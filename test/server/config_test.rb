# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "program"
require "neverblock/server"
require "pathname"
require "neverblock/server/config"
require "open3"

# config/neverblock.rb, the flags that beat it, and what the machine offers.
class ServerConfigTest < Minitest::Test
  include ServerProgram

  CONFIG = <<~RUBY
    rackup "other.ru"
    environment "production"
    workers 1
    threads 3, 9
    preload_app!
    quiet
    persistent_timeout 5
    first_data_timeout 6
    worker_shutdown_timeout 7
    body_bytes 1000
    def note(text) = $stderr.puts(text)
    before_fork { note "before_fork" }
    before_worker_boot { |index| note "on_worker_boot \#{index}" }
    on_worker_shutdown { |index| note "on_worker_shutdown \#{index}" }
    after_booted { note "on_booted" }
  RUBY

  def test_the_words_of_puma
    File.write("#{@dir}/other.ru", 'run ->(_env) { [200, {}, [ENV["RACK_ENV"] == "production" ? "7" : "0"]] }')
    start(config: CONFIG)
    assert_equal 7, get
    worker = workers.first
    assert_equal 9, worker["fibers_max"]
    refute_equal @pid, worker["pid"]
    eventually { log.include?("on_booted") }
    assert_predicate finish, :success?
    # A second worker may have answered who was let in while the first was leaving.
    assert_equal ["before_fork", "on_booted", "on_worker_boot 0", "on_worker_shutdown 0"], log.lines(chomp: true).uniq.sort
  end

  def test_threads_of_puma_that_allow_few_requests_are_pointed_out
    { "threads 3, 3" => true, "threads 5" => false, "threads 1, 200" => false,
      "threads 3, 3; fibers 500" => false }.each do |line, told|
      start(config: line)
      assert_equal told, log.include?("! threads: only 3 requests run at a time: delete the line, or set fibers"), line
      finish
    end
  end

  def test_flags_beat_the_file
    start("--fibers", "3", "-w", "0", config: %(fibers 5\nworkers 2\nbind "tcp://127.0.0.1:1"\n))
    assert_equal @pid, get
    assert_equal 3, stats["workers"].first["fibers_max"]
    finish
  end

  def test_port_and_the_default
    config = NB::Server::Config.new(environment: {})
    assert_equal ["tcp://127.0.0.1:9292"], config.bindings
    config.port(3000)
    config.port(4000, "127.0.0.1")
    assert_equal %w[tcp://0.0.0.0:3000 tcp://127.0.0.1:4000], config.bindings
  end

  def test_environment
    config = NB::Server::Config.new(environment: {"RACK_ENV" => "test", "WEB_CONCURRENCY" => "3"})
    assert_equal ["test", 3], [config.environment, config.worker_count]
    assert_equal "development", NB::Server::Config.new(environment: {}).environment
    # In Puma's order.
    config = NB::Server::Config.new(environment: {"RACK_ENV" => "test", "APP_ENV" => "staging", "RAILS_ENV" => "production"})
    assert_equal "staging", config.environment
    # Set to nothing, as by `environment:` of a Compose file, is not set.
    config = NB::Server::Config.new(environment: {"RACK_ENV" => "", "RAILS_ENV" => "test", "WEB_CONCURRENCY" => " "})
    assert_equal ["test", 0], [config.environment, config.worker_count]
    error = assert_raises(ArgumentError) { NB::Server::Config.new(environment: {"WEB_CONCURRENCY" => "x"}) }
    assert_equal 'WEB_CONCURRENCY: must be an integer in 0..1024, got: "x"', error.message
  end

  # With 0 fibers Puma's plugin served nothing.
  def test_fibers_of_puma
    before = ENV["NEVERBLOCK_FIBERS"]
    {nil => 256, "" => 256, "7" => 7}.each do |text, count|
      ENV["NEVERBLOCK_FIBERS"] = text
      assert_equal count, NB::Server::Config.puma_fibers
    end
    %w[0 -1 x].each do |text|
      ENV["NEVERBLOCK_FIBERS"] = text
      error = assert_raises(ArgumentError) { NB::Server::Config.puma_fibers }
      assert_equal "NEVERBLOCK_FIBERS: must be an integer in 1..100000, got: #{text.inspect}", error.message
    end
  ensure
    ENV["NEVERBLOCK_FIBERS"] = before
  end

  # Ruby's own files are UTF-8 in any locale.
  def test_a_file_with_umlauts_in_the_c_locale
    File.write("#{@dir}/nb.rb", "# für alle\nbind 'unix://#{@socket}'\non_booted { puts 'größer' }\n")
    launch(*nb("serve"), env: {"LC_ALL" => "C", "LANG" => "C"})
    assert_equal @pid, get
    assert_includes log.b, "größer".b
  end

  def test_an_address_that_is_none
    [nil, [], 9292, :tcp, [nil]].each do |bind|
      error = assert_raises(ArgumentError) { NB::Server.new(nil, bind: bind) }
      assert_match(/\Abind: must be an address such as tcp:\S+, got: /, error.message)
    end
  end

  def test_an_application_that_cannot_be_called
    words = "the application must respond to call, as a lambda does, got:"
    [nil, 42, Class].each do |app|
      server = NB::Server.new(app, bind: "tcp://127.0.0.1:0", log: nil)
      assert_equal "#{words} #{app.inspect}", assert_raises(ArgumentError) { Timeout.timeout(20) { server.run } }.message
    end
    File.write("#{@dir}/config.ru", "run 42")
    [[], %w[-w 1]].each do |workers|
      out, status = Open3.capture2e(*nb("serve", "-b", "tcp://127.0.0.1:0", *workers), chdir: @dir)
      assert_equal ["nb serve: #{words} 42\n", 1], [out.lines.last, status.exitstatus]
    end
  end

  def test_a_log_that_cannot_be_written_to
    %i[log access_log].product([5, "log/x.log"]).each do |name, value|
      error = assert_raises(ArgumentError) { NB::Server.new(nil, name => value) }
      assert_equal "#{name}: must be an IO or the like, or nil for none, got: #{value.inspect}", error.message
    end
  end

  def test_a_word_that_does_not_exist
    File.write("#{@dir}/nb.rb", "fibers 3\n\nfibres 4\n")
    out, status = Open3.capture2e(*nb("serve"), chdir: @dir)
    assert_equal 2, status.exitstatus
    assert_match(/nb\.rb:3: unknown setting fibres/, out)
  end

  # Ruby 3.1 shows the receiver in the message, and ours knows the environment.
  SECRET = {"SECRET_OF_MINE" => "opensesame"}.freeze

  def test_a_word_alone_that_does_not_exist
    File.write("#{@dir}/nb.rb", "fibres\n")
    out, status = Open3.capture2e(SECRET, *nb("serve"), chdir: @dir)
    assert_equal [2, "nb serve: #{@dir}/nb.rb:1: unknown setting fibres"], [status.exitstatus, out.lines.first.chomp]
    refute_includes out, "opensesame"
  end

  def test_a_word_that_does_not_exist_in_a_hook
    start(config: "workers 1\nbefore_fork { fibres }\n", env: SECRET)
    finish
    assert_match(/undefined local variable or method ['`]fibres'/, log)
    refute_includes log, "opensesame"
  end

  # An error in the file names the line, whatever the error.
  def test_a_mistake_has_its_place
    {"fibers" => "wrong number of arguments (given 0, expected 1)", "page '/a', foo: 1" => "unknown keyword: :foo",
     "access_log_format 'json'" => 'access_log_format: must be one of :common, :json, got: "json"',
     "worker_timeout 1" => "worker_timeout: must be seconds > 1, which is how often workers report, or nil for no limit, got: 1.0",
     "on_request" => "on_request: must be given a block", "raise NameError, 'mine'" => "mine", "fibers 0" => "fibers: must be an integer in 1..100000, got: 0"}.each do |text, words|
      File.write("#{@dir}/nb.rb", "\n#{text}\n")
      out, status = Open3.capture2e(*nb("serve"), chdir: @dir)
      assert_equal [2, "nb serve: #{@dir}/nb.rb:2: #{words}"], [status.exitstatus, out.lines.first.chomp]
    end
  end

  # Saved in Latin-1. Ruby shows the line of an error, in these bytes.
  def test_a_file_that_is_not_utf8
    ["", '"'].each do |quote|
      File.binwrite("#{@dir}/nb.rb", "access_log \"gr\xf6\xdfer#{quote}\n")
      error = assert_raises(ArgumentError) { NB::Server::Config.new(environment: {}).load("#{@dir}/nb.rb") }
      assert_match(/\A#{Regexp.escape(@dir)}\/nb\.rb:1: .*invalid multibyte char[^\n]*\z/, error.message)
    end
  end

  def test_addresses_and_paths_that_are_not_utf8
    {"bind" => "bind: must be an address such as tcp://127.0.0.1:9292, got: \"unix://\\xFF\"",
     "control" => "control: must be unix://path or tcp://host:port, got: unix://\xFF",
     "page" => "page: must be a path such as /neverblock, got: \"unix://\\xFF\""}.each do |word, text|
      File.write("#{@dir}/nb.rb", "#{word} \"unix://\\xff\"\n")
      out, status = Open3.capture2e(*nb("serve").grep_v(/control/), chdir: @dir)
      assert_equal 2, status.exitstatus
      assert_includes out.b, text.b
    end
  end

  def test_sockets_of_systemd_are_counted
    {"-1" => false, "many" => false, "2000" => false, "0" => [], "2" => %w[fd://3 fd://4]}.each do |count, expected|
      environment = {"LISTEN_PID" => Process.pid.to_s, "LISTEN_FDS" => count}
      next assert_equal expected, NB::Server::Config.new(environment: environment).inherited if expected

      error = assert_raises(ArgumentError) { NB::Server::Config.new(environment: environment) }
      assert_equal "LISTEN_FDS: must be an integer in 0..1024, got: #{count.inspect}", error.message
    end
  end

  def test_a_value_out_of_range
    File.write("#{@dir}/nb.rb", "fibers 0\n")
    out, status = Open3.capture2e(*nb("serve"), chdir: @dir)
    assert_equal 2, status.exitstatus
    assert_match(/fibers: must be an integer in 1\.\.100000, got: 0/, out)
  end

  def test_values_are_checked_where_they_are_said
    config = NB::Server::Config.new(environment: {})
    {workers: "some", worker_timeout: 0, max_requests: -1, max_memory_mb: "1 GB", fibers: 0, drain_timeout: "long", persistent_timeout: -1, pidfile: 5, access_log: $stdout, rackup: "", environment: 1, control: 5, quiet: "no", preload_app!: "false"}.each do |name, value|
      error = assert_raises(ArgumentError) { config.public_send(name, value) }
      assert_match(/\A\w+!?: must be .*, got: #{Regexp.escape(value.inspect)}\z/, error.message)
    end
    assert_equal [[2, Float::INFINITY], [:auto, 60.0]], [["2", nil], [:auto, 60]].map { |count, time| [config.workers(count), config.worker_timeout(time)] }
    assert_match(/\Aworkers: must be an integer in 0..1024 or :auto, got: "some"\z/, assert_raises(ArgumentError) { config.workers("some") }.message)
    assert_equal [:auto, nil], [config.workers("auto"), config.workers(nil)] # ENV.fetch("WEB_CONCURRENCY", 2)
    config.early_hints
    config.body_streaming(false)
    assert_equal [true, false], config.server_options.values_at(:early_hints, :body_streaming)
    assert_nil config.max_requests(nil)
    assert_match(/\Abefore_fork: must be given a block\z/, assert_raises(ArgumentError) { config.before_fork }.message)
    assert_equal ["production", "a/b", nil, "development"], [config.environment(:production), config.rackup(Pathname("a/b")), config.pidfile(nil), NB::Server::Config.new(environment: {}).environment(nil)]
  end

  # Puma has them: here they would be part of the path.
  def test_a_unix_socket_has_no_options
    ["unix://a?umask=0111", "unix://\0a", "unix://"].each do |address|
      error = assert_raises(ArgumentError) { NB::Server.new(nil, bind: address) }
      assert_match(/\Abind: expected tcp:.*, got: #{Regexp.escape(address.inspect)}\z/, error.message)
    end
  end

  # As one on the command line.
  def test_a_bad_address_in_the_configuration
    File.write("#{@dir}/nb.rb", "bind 'nowhere'\n")
    out, status = Open3.capture2e(*nb("serve", "-C", "nb.rb"), chdir: @dir)
    assert_match(/\Anb serve: bind: expected .*, got: "nowhere"\nSee: nb help serve\n\z/, out)
    assert_equal 2, status.exitstatus
  end

  # It is no word of ours.
  def test_an_application_that_raises_an_argument_error_tells_where
    File.write("#{@dir}/config.ru", "\nrun Integer('x')\n")
    out, status = Open3.capture2e(*nb("serve", "-b", "tcp://127.0.0.1:0"), chdir: @dir)
    assert_match(/config\.ru:2:in /, out)
    assert_match(/ArgumentError/, out)
    assert_equal 1, status.exitstatus
  end

  def usable(groups, files)
    root = "#{@dir}/cgroup"
    files.each do |name, content|
      FileUtils.mkdir_p(File.dirname("#{root}/#{name}"))
      File.write("#{root}/#{name}", content)
    end
    File.write("#{@dir}/groups", groups)
    NB::Server::Cores.usable(groups: "#{@dir}/groups", root: root)
  ensure
    FileUtils.rm_rf(root)
  end

  def test_quotas_as_the_kernel_writes_them
    all = Etc.nprocessors
    assert_equal 1, usable("0::/a/b\n", "a/cpu.max" => "50000 100000\n", "a/b/cpu.max" => "max 100000\n")
    assert_equal all, usable("0::/a\n", "a/cpu.max" => "max 100000\n")
    assert_equal [2, all].min, usable("0::/\n", "cpu.max" => "150000 100000\n")
    assert_equal 1, usable("3:cpu,cpuacct:/x\n0::/\n", "cpu,cpuacct/x/cpu.cfs_quota_us" => "10000\n",
                                                       "cpu,cpuacct/x/cpu.cfs_period_us" => "100000\n")
    assert_equal all, usable("1:cpu:/\n", "cpu/cpu.cfs_quota_us" => "-1\n", "cpu/cpu.cfs_period_us" => "100000\n")
    assert_equal all, usable("0::/gone\n", {})
  end

  # A real control group with half a core.
  def test_auto_workers_in_a_control_group
    group = "/sys/fs/cgroup/cpu/nb-test-#{Process.pid}"
    begin
      Dir.mkdir(group)
      File.write("#{group}/cpu.cfs_quota_us", "50000")
    rescue SystemCallError => error
      skip "no control group of version 1 can be made here: #{error.message}"
    end
    launch("sh", "-c", "echo $$ > #{group}/cgroup.procs && exec \"$@\"", "sh",
           *nb("serve", "-b", "unix://#{@socket}", "-w", "auto"))
    assert_equal 1, stats["size"]
    assert_match(/1 workers/, log)
    finish
  ensure
    Dir.rmdir(group) if group && File.directory?(group)
  end

  def test_auto_workers_by_affinity
    first = File.read("/proc/self/status")[/Cpus_allowed_list:\s+(\d+)/, 1]
    launch("taskset", "-c", first, *nb("serve", "-b", "unix://#{@socket}", "-w", "auto"))
    assert_equal 1, stats["size"]
    finish
  end
end
# rubocop:enable Layout/LineLength
