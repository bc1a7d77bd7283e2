# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "program"

# The other ways in: rackup, rails server, a program of one's own.
class ServerHandlersTest < Minitest::Test
  include ServerProgram

  RAILS = <<~RUBY
    require "rails"
    require "action_controller/railtie"
    class PidController < ActionController::API
      def show
        sleep Float(params[:wait]) if params[:wait]
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
    @port = TCPServer.open("127.0.0.1", 0) { |server| server.local_address.ip_port }
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

  def test_rackup_with_workers
    launch(*ruby(Gem.bin_path("rackup", "rackup"), "-s", "neverblock", "-o", "127.0.0.1", "-p", @port.to_s, "-O", "Workers=2"))
    eventually { pids.size == 2 }
    assert_includes pids, ask
    assert_predicate finish, :success?
  end

  def test_rails_server
    File.write("#{@dir}/config/application.rb", RAILS)
    File.write("#{@dir}/config/environment.rb", %(require_relative "application"\nRails.application.initialize!\n))
    File.write("#{@dir}/config.ru", %(require_relative "config/environment"\nrun Rails.application\n))
    Dir.mkdir("#{@dir}/bin")
    File.write("#{@dir}/bin/rails", %(APP_PATH = "#{@dir}/config/application"\nrequire "rails/commands"\n))
    launch(*ruby("bin/rails", "server", "-u", "neverblock", "-b", "127.0.0.1", "-p", @port.to_s))
    assert_equal @pid, ask("/pid")
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    answers = Array.new(10) { Thread.new { ask("/pid?wait=0.5") } }.map(&:value)
    assert_equal [@pid], answers.uniq
    assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - start, :<, 3, "they overlap"
    assert_predicate finish, :success?
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
