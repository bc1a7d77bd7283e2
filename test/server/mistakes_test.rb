# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "program"
require_relative "../support/certificates"
require_relative "../support/ports"

# A mistake in what USR2 reads anew costs nobody an answer.
class ServerMistakesTest < Minitest::Test
  include ServerProgram

  # What a deployment gets wrong => how, and what is said about it.
  MISTAKES = {
    "the file is no Ruby" => [->(dir) { File.write("#{dir}/nb.rb", "workers (") }, "nb.rb:1: syntax error"],
    "a value is out of range" => [->(dir) { File.write("#{dir}/nb.rb", "fibers 0") }, "fibers: must be"],
    "the file is gone" => [->(dir) { File.unlink("#{dir}/nb.rb") }, "no such file: "],
    "the rackup file is gone" => [->(dir) { File.unlink("#{dir}/config.ru") }, "no such file: config.ru"],
    "the log has no folder" => [->(dir) { File.write("#{dir}/nb.rb", "access_log '#{dir}/no/log'") }, "cannot write the access log"],
    "the pidfile has no folder" => [->(dir) { File.write("#{dir}/nb.rb", "pidfile '#{dir}/no/pid'") }, "cannot write the pidfile"],
    "the application exits" => [->(dir) { File.write("#{dir}/config.ru", "abort 'no DATABASE_URL'") }, "no DATABASE_URL"]
  }.freeze

  def test_the_old_workers_continue_until_it_is_mended
    start("-w", "1")
    old = get
    survive(MISTAKES, old)
    Process.kill("USR2", @pid)
    eventually { (now = pids).any? && !now.include?(old) }
    eventually { !alive?(old) }
    assert_equal pids.first, get
    assert_predicate finish, :success?
  end

  # Without workers the new program itself is to serve.
  SINGLE = {
    "the application raises" => [->(dir) { File.write("#{dir}/config.ru", "raise 'no such luck'") }, "no such luck"],
    "the application exits" => [->(dir) { File.write("#{dir}/config.ru", "exit") }, "The application does not start"],
    "the log has no folder" => [->(dir) { File.write("#{dir}/nb.rb", "access_log '#{dir}/no/log'") }, "cannot write the access log"],
    "the hook fails" => [->(dir) { File.write("#{dir}/nb.rb", "on_worker_boot { raise 'no database' }") }, "no database"]
  }.freeze

  def test_the_old_workers_continue_when_the_new_program_has_none
    start(config: "workers 1")
    old = get
    mend
    survive(SINGLE, old)
    Process.kill("USR2", @pid)
    eventually { get == @pid }
    eventually { !alive?(old) }
    assert_predicate finish, :success?
    refute File.exist?(@socket)
  end

  # Makes each mistake, and asks whether the old worker continues.
  def survive(mistakes, old)
    mistakes.each_with_index do |(name, (make, words)), index|
      make.call(@dir)
      Process.kill("USR2", @pid)
      eventually { log.scan("so the old workers continue").size == index + 1 }
      assert_includes log, words, name
      eventually { ready? }
      assert_equal old, get, name
      mend
    end
  end

  def mend
    File.write("#{@dir}/nb.rb", "")
    File.write("#{@dir}/config.ru", RACKUP)
  end

  # Who asks at the control socket would send no more clients, and the pidfile would stay forever.
  def test_what_the_file_said_before_still_holds
    File.write("#{@dir}/nb.rb", "workers 1\ncontrol '#{@control}'\npidfile '#{@dir}/pid'\n")
    launch(RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, NB_PROGRAM, "serve", "-C", "#{@dir}/nb.rb", "-b", "unix://#{@socket}")
    File.write("#{@dir}/nb.rb", "workers (")
    2.times do |round|
      Process.kill("USR2", @pid)
      eventually { log.scan("so the old workers continue").size == round + 1 }
      eventually { ready? }
    end
    assert_predicate finish, :success?
    assert_equal %w[config.ru log nb.rb], Dir.children(@dir).sort
  end

  def test_the_master_ends_with_the_last_old_worker
    start("-w", "1")
    old = get
    File.write("#{@dir}/config.ru", "raise 'no such luck'")
    Process.kill("USR2", @pid)
    eventually { log.include?("so the old workers continue") && ready? }
    Process.kill("KILL", old)
    assert_equal 1, ended.exitstatus
    assert_includes log, "nb serve: the last old worker has ended, and no new one can serve"
    refute File.exist?(@socket)
  end

  # A certificate is renewed in two files.
  def test_a_certificate_that_does_not_fit_its_key
    File.write("#{@dir}/key", Certificates::KEY.to_pem)
    File.write("#{@dir}/cert", Certificates.certificate.to_pem)
    start("-w", "1", "-b", "ssl://127.0.0.1:0?cert=#{@dir}/cert&key=#{@dir}/key")
    old = get
    port = Integer(log[/ssl:\S+:(\d+)/, 1])
    File.write("#{@dir}/key", OpenSSL::PKey::EC.generate("prime256v1").to_pem)
    2.times do |round|
      Process.kill("USR2", @pid)
      eventually { log.scan("mismatch, so the old workers continue").size == round + 1 }
      eventually { ready? }
      assert_equal [old, old], [get, secure(port)]
    end
    File.write("#{@dir}/key", Certificates::KEY.to_pem)
    Process.kill("USR2", @pid)
    eventually { (now = pids).any? && !now.include?(old) }
    eventually { !alive?(old) }
    assert_equal [pids.first] * 2, [get, secure(port)]
    assert_predicate finish, :success?
    refute File.exist?(@socket)
  end

  # What runs before `nb serve` could say anything: rackup loads the application first.
  def test_what_ends_before_it_takes_over
    Dir.mkdir("#{@dir}/config")
    File.write("#{@dir}/config/neverblock.rb", "workers 1\ncontrol '#{@control}'\n")
    port = Ports.free
    launch(RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-o", "127.0.0.1", "-p", port.to_s)
    old = pids
    ["raise 'no such luck'", "exit", "run ("].each_with_index do |text, index|
      File.write("#{@dir}/config.ru", text)
      Process.kill("USR2", @pid)
      eventually { log.scan("ended while it started, so the old workers continue").size == index + 1 }
      eventually { ready? }
      assert_equal old, [Integer(plain(port))]
    end
    assert_includes log, "no such luck"
    File.write("#{@dir}/config.ru", 'run ->(_env) { [200, {}, [ENV["RUBYOPT"].inspect]] }')
    Process.kill("USR2", @pid)
    eventually { (now = pids).any? && now != old }
    eventually { !alive?(old.first) }
    assert_equal ENV["RUBYOPT"].inspect, plain(port)
    assert_predicate finish, :success?
  end

  # Bundler comes first of all, from Ruby 3.4's RubyGems even before what RUBYOPT names.
  def test_a_gem_that_bundler_does_not_find
    File.write("#{@dir}/Gemfile", "gem 'rack'\n")
    launch(RbConfig.ruby, Gem.bin_path("bundler", "bundle"), "exec", *nb("serve", "-b", "unix://#{@socket}", "-w", "1"), env: {"BUNDLE_GEMFILE" => "#{@dir}/Gemfile"})
    old = get
    File.write("#{@dir}/Gemfile", "gem 'rack'\ngem 'no_such_gem_of_ours'\n")
    Process.kill("USR2", @pid)
    eventually { log.include?("ended while it started, so the old workers continue") }
    eventually { ready? }
    assert_includes log, "no_such_gem_of_ours"
    assert_equal old, get
    File.write("#{@dir}/Gemfile", "gem 'rack'\n")
    Process.kill("USR2", @pid)
    eventually { (now = pids).any? && now != [old] }
    eventually { !alive?(old) }
    assert_equal pids.first, get
    assert_predicate finish, :success?
  end

  # `bundle clean` and `gem cleanup` remove the release that still runs.
  def test_without_the_file_that_the_next_program_loads_first
    FileUtils.cp_r(File.expand_path("../../lib", __dir__), "#{@dir}/lib")
    FileUtils.cp_r(File.dirname(NB_PROGRAM), "#{@dir}/exe")
    ruby, *words = nb("serve", "-b", "unix://#{@socket}", "-w", "1")
    words.map! { |word| word == NB_PROGRAM ? "#{@dir}/exe/nb" : word }
    launch(ruby, "-I#{@dir}/lib", *words)
    old = get
    File.unlink("#{@dir}/lib/neverblock/server/restart_guard.rb")
    Process.kill("USR2", @pid)
    eventually { (now = pids).any? && now != [old] }
    assert_equal pids.first, get
    assert_predicate finish, :success?
  end

  def test_term_ends_what_stayed
    File.write("#{@dir}/early.rb", "raise 'too early' if File.exist?('#{@dir}/go')")
    start("-w", "1", env: {"RUBYOPT" => "-r#{@dir}/early"})
    old = get
    go
    Process.kill("USR2", @pid)
    eventually { log.include?("ended while it started") }
    eventually { ready? }
    assert_includes log, "too early"
    assert_equal old, get
    assert_predicate finish, :success?
    refute alive?(old)
    refute File.exist?(@socket)
  end

  def plain(port)
    TCPSocket.open("127.0.0.1", port) do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      socket.read[/\r\n\r\n(.*)\z/m, 1]
    end
  end

  def test_a_mistake_of_the_first_start_ends_it
    File.write("#{@dir}/nb.rb", "fibers 0")
    @pid = spawn(*nb("serve", "-w", "1"), chdir: @dir, out: @log, err: %i[child out], pgroup: true)
    assert_equal 2, ended.exitstatus
    assert_includes log, "nb.rb:1: fibers: must be an integer in 1..100000, got: 0"
  end
end
# rubocop:enable Layout/LineLength
