# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "program"
require "open3"
require_relative "../support/certificates"
require_relative "../support/ports"

# The other ways in: rackup, rails server, a program of one's own.
class ServerHandlersTest < Minitest::Test
  include ServerProgram

  RAILS = <<~RUBY
    require "rails"
    require "action_controller/railtie"
    class PidController < ActionController::API
      @@inside = 0
      def show
        together = params[:together].to_i # nobody is answered before so many have come
        @@inside += 1 if together > 0
        sleep 0.001 while @@inside < together
        render plain: Process.pid.to_s
      end
    end
    class Application < Rails::Application
      config.root = File.dirname(__dir__)
      config.eager_load = false
      config.logger = Logger.new($stderr)
      config.secret_key_base = "x" * 32
      config.hosts.clear
      routes.append { get "/pid", to: "pid#show" }
    end
  RUBY

  def setup
    super
    @port = Ports.free
    @socket = nil
    Dir.mkdir("#{@dir}/config")
    File.write("#{@dir}/config/neverblock.rb", %(control "#{@control}"\n))
  end

  def ruby(*arguments) = [RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, *arguments]

  def ask(path = "/")
    TCPSocket.open("127.0.0.1", @port) do |socket|
      socket.write("GET #{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
      answer = socket.read
      assert_match(/\AHTTP\/1.1 200 /, answer, log)
      answer[/\d+\z/].to_i
    end
  end

  def test_rackup
    launch(*ruby(Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-o", "127.0.0.1", "-p", @port.to_s, "-O", "Fibers=7"))
    assert_equal @pid, ask
    assert_equal 7, stats["workers"].first["fibers_max"]
    assert_predicate finish, :success?
  end

  # What Puma takes for a host, too: `rails server -b ssl://…` in development.
  def test_a_host_that_is_a_path_or_an_address
    File.write("#{@dir}/key", Certificates::KEY.to_pem)
    File.write("#{@dir}/cert", Certificates.certificate.to_pem)
    files = "cert=#{@dir}/cert&key=#{@dir}/key"
    @socket = "#{@dir}/app.sock"
    {@socket => -> { get }, "./app.sock" => -> { get }, "unix://#{@socket}" => -> { get }, "tcp://127.0.0.1" => -> { ask },
     "ssl://127.0.0.1?#{files}" => -> { secure(@port) }, "ssl://127.0.0.1:#{port = Ports.free}?#{files}" => -> { secure(port) }}.each do |host, ask|
      launch(*ruby(Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-o", host, "-p", @port.to_s))
      assert_equal @pid, ask.call, host
      assert_predicate finish, :success?
    end
  end

  # As `rails server --early-hints` calls it.
  def test_early_hints_of_rails
    program = <<~RUBY
      require "rackup/handler/neverblock"
      app = ->(env) { env["rack.early_hints"].call("link" => "</a>") || [200, {}, []] }
      Rackup::Handler::Neverblock.run(app, Host: "127.0.0.1", Port: #{@port}, early_hints: true)
    RUBY
    launch(*ruby("-rrackup", "-e", program))
    TCPSocket.open("127.0.0.1", @port) do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      assert_match(/\AHTTP\/1.1 103 .*\nlink: <\/a>\r\n\r\nHTTP\/1.1 200 /m, socket.read)
    end
  end

  # An application need not require what serves it.
  def test_the_whole_interface_is_there
    File.write("#{@dir}/config.ru", <<~RUBY)
      run ->(_) { [200, {"content-type" => "text/plain"}, [NB.async { sleep(0.001) && 7 }.value.to_s]] }
    RUBY
    [nb("serve", "-b", "tcp://127.0.0.1:#{@port}"),
     ruby(Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-o", "127.0.0.1", "-p", @port.to_s)].each do |command|
      launch(*command)
      assert_equal 7, ask
      assert_predicate finish, :success?
    end
  end

  def test_rackup_with_workers
    launch(*ruby(Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-o", "127.0.0.1", "-p", @port.to_s, "-O", "Workers=2"))
    eventually { pids.size == 2 }
    assert_includes pids, ask
    assert_predicate finish, :success?
  end

  # The program is executed as it was started, though it has taken words off its command line.
  def test_usr2_under_rackup
    launch(*ruby(Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-o", "127.0.0.1", "-p", @port.to_s, "-P", "#{@dir}/pid", "-O", "Workers=1"))
    2.times do
      old = eventually { pids.first }
      Process.kill("USR2", @pid)
      eventually { (now = pids).any? && !now.include?(old) && !alive?(old) }
      assert_equal pids.first, ask
    end
    assert_equal @pid, File.read("#{@dir}/pid").to_i
    assert_predicate finish, :success?
  end

  # It is a daemon already: if it forked again, its workers would lose their master.
  def test_usr2_of_a_daemon
    launch_daemon(*ruby(Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-o", "127.0.0.1", "-p", @port.to_s, "-P", "#{@dir}/pid", "-O", "Workers=1", "-D"))
    2.times do
      old = eventually { pids.first }
      Process.kill("USR2", @daemon)
      eventually { (now = pids).any? && !now.include?(old) && !alive?(old) }
      assert_equal pids.first, ask
      assert_equal @daemon, File.read("#{@dir}/pid").to_i
    end
    Process.kill("TERM", @daemon)
    eventually { !alive?(@daemon) }
  ensure
    end_daemons
  end

  # A child that is to be a daemon becomes one, in whatever program.
  def test_a_child_of_a_program_after_usr2_becomes_a_daemon
    guard = File.expand_path("../../lib/neverblock/server/restart_guard.rb", __dir__)
    code = <<~RUBY
      own, returned = Process.pid, Process.daemon(true, true)
      out, into = IO.pipe
      child = fork { Process.daemon(true, true) && into.write(Process.pid) }
      into.close
      p returned, Process.pid == own, Integer(out.read) != child
    RUBY
    printed = Open3.capture3(RbConfig.ruby, "-r#{guard}", "-e", code).first(2)
    assert_equal ["0\ntrue\ntrue\n", ""], printed
  end

  # And their workers.
  def end_daemons
    written = File.read("#{@dir}/pid").to_i if File.size?("#{@dir}/pid")
    [@daemon, written].compact.uniq.each do |pid|
      Process.kill("KILL", -Process.getpgid(pid))
    rescue Errno::ESRCH
      nil # it has ended
    end
  end

  # Rack 2 sends a daemon to the root folder, where config/neverblock.rb and the program are not.
  def test_a_daemon_of_rack_2 = check_daemon_of_rack_2(@dir)

  # As a supervisor or a script with `chdir:` leaves it: the folder of another program.
  def test_a_daemon_of_rack_2_with_a_stale_name_of_its_folder = check_daemon_of_rack_2(Dir.home)

  def check_daemon_of_rack_2(name)
    File.write("#{@dir}/server.rb", %(gem "rack", "~> 2.2"\nrequire "rack"\nRack::Server.start\n))
    launch_daemon(*ruby("server.rb", "-s", "neverblock", "-o", "127.0.0.1", "-p", @port.to_s, "-P", "#{@dir}/pid", "-O", "Workers=1", "-D"), name: name)
    old = eventually { pids.first }
    Process.kill("USR2", @daemon)
    eventually { (now = pids).any? && !now.include?(old) && !alive?(old) }
    assert_equal pids.first, ask
    Process.kill("TERM", @daemon)
    eventually { !alive?(@daemon) }
  ensure
    end_daemons
  end

  def launch_daemon(*command, name: @dir)
    Process.wait(spawn({"PWD" => name}, *command, chdir: @dir, %i[out err] => @log))
    eventually { ready? }
    @daemon = eventually { File.read("#{@dir}/pid").to_i.nonzero? }
  end

  def test_a_port_in_use_is_said_in_one_line
    server = TCPServer.new("127.0.0.1", @port)
    out, status = Open3.capture2e(*ruby(Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-o", "127.0.0.1", "-p", @port.to_s), chdir: @dir)
    assert_match(/\Aneverblock: cannot listen: .*another process listens there: end it, or choose another address\n\z/, out)
    assert_equal 1, status.exitstatus
  ensure
    server&.close
  end

  def test_variables_that_are_not_valid_are_reported_in_one_line
    {"NB_BACKEND" => "backend: must be", "NB_WATCHDOG" => "NB_WATCHDOG: must be", "NB_REPAIRS" => "NB_REPAIRS: must be",
     "NB_DRIVERS" => "NB_DRIVERS: must be 0, or"}.each do |name, words|
      command = ["timeout", "-s", "KILL", "60", *ruby(Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-p", @port.to_s)]
      out, status = Open3.capture2e({name => "x"}, *command, chdir: @dir)
      assert_match(/\Aneverblock: #{words}.*[,;] got: "x"\n\z/, out)
      assert_equal 1, status.exitstatus
    end
  end

  def test_what_cannot_be_had_is_said_in_one_line
    {%w[-p abc] => "bind: expected", %w[-p 99999] => "bind: a port is", %w[-O Workers=x] => "workers: must be", %w[-O Fibers] => "fibers: must be", %w[-O Fibers=0] => "fibers: must be"}.each do |flags, words|
      out, status = Open3.capture2e(*ruby(Gem.bin_path("rackup", "rackup"), "-s", "neverblock", *flags), chdir: @dir)
      assert_match(/\Aneverblock: #{words}.*\n\z/, out)
      assert_equal 1, status.exitstatus
    end
  end

  # As by nb serve, whatever the mistake.
  def test_a_mistake_in_the_configuration_is_said_in_one_line
    {"fibers(\n" => "config/neverblock.rb:1: syntax error", "\nraise 'no such luck'" => "config/neverblock.rb:2: no such luck",
     "require 'no/such/file'" => "config/neverblock.rb:1: cannot load such file -- no/such/file", "fibres 1" => "config/neverblock.rb:1: unknown setting fibres"}.each do |text, words|
      File.write("#{@dir}/config/neverblock.rb", text)
      out, status = Open3.capture2e(*ruby(Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-p", @port.to_s), chdir: @dir)
      assert_match(/\Aneverblock: #{words}.*\n\z/, out)
      assert_equal 1, status.exitstatus
    end
  end

  def test_rails_server
    File.write("#{@dir}/config/application.rb", RAILS)
    File.write("#{@dir}/config/environment.rb", %(require_relative "application"\nRails.application.initialize!\n))
    File.write("#{@dir}/config.ru", %(require_relative "config/environment"\nrun Rails.application\n))
    Dir.mkdir("#{@dir}/bin")
    File.write("#{@dir}/bin/rails", %(APP_PATH = "#{@dir}/config/application"\nrequire "rails/commands"\n))
    launch(*ruby("bin/rails", "server", "-u", "neverblock", "-b", "127.0.0.1", "-p", @port.to_s))
    assert_equal @pid, ask("/pid")
    answers = Array.new(10) { Thread.new { ask("/pid?together=10") } }.map(&:value)
    assert_equal [@pid], answers.uniq
    assert_predicate finish, :success?
  end

  SINATRA = <<~RUBY
    require "sinatra"
    set :server, :neverblock
    set :port, Integer(ARGV.shift)
    set :server_settings, Workers: Integer(ARGV.shift)
    get("/") { Process.pid.to_s }
    get("/quit") { self.class.quit!; Process.pid.to_s }
  RUBY

  # Sinatra stops its server by a method, from a signal handler and at_exit, in workers, too.
  def test_sinatra
    File.write("#{@dir}/app.rb", SINATRA)
    [[0, "TERM"], [0, "INT"], [0, nil], [2, "TERM"]].each do |workers, signal|
      launch(*ruby("app.rb", @port.to_s, workers.to_s))
      answer = ask(signal ? "/" : "/quit")
      assert_equal @pid, answer if workers.zero?
      assert_predicate signal ? finish(signal) : ended, :success?, log
      refute_match(/Error/, log)
      assert_includes log, "Sinatra has ended his set"
    end
  end

  def test_a_program_of_ones_own
    program = <<~RUBY
      require "neverblock/server"
      $stdout.sync = true
      app = ->(_env) { [200, {}, [Process.pid.to_s]] }
      server = NB::Server.new(app, bind: "tcp://127.0.0.1:#{@port}")
      trap("TERM") { server.stop }
      drained = server.run { |running| puts running.addresses, running.ready? }
      puts "drained \#{drained}"
    RUBY
    @pid = spawn(*ruby("-e", program), chdir: @dir, out: @log, err: %i[child out], pgroup: true)
    eventually { log == "tcp://127.0.0.1:#{@port}\ntrue\n" }
    assert_equal @pid, ask
    assert_predicate finish, :success?
    assert_match(/^drained true$/, log)
  end
end
# rubocop:enable Layout/LineLength
