# frozen_string_literal: true

require_relative "program"
require_relative "outside"
require_relative "../support/ports"
require_relative "../support/browser"
require "net/http"
require "neverblock"
require "neverblock/server/launcher"

# What the page's tests have in common: `nb serve --page` on a port of every interface.
module PageProgram
  include ServerProgram
  include Outside

  APP = <<~'RUBY'
    require "neverblock"
    POOL = NB::ConnectionPool.new(size: 1, timeout: nil, name: "backend") { Object.new }
    run lambda { |env|
      POOL.with { sleep 0.01 until File.exist?("go") } if env["PATH_INFO"].start_with?("/pool")
      sleep 0.01 until File.exist?("go") if env["PATH_INFO"].start_with?("/wait")
      300.times { |i| NB.async(name: "mailer") { sleep 60 } } if env["PATH_INFO"] == "/fibers"
      cpu = -> { Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) } # a busy machine is no stall
      enough = cpu.call + 0.4
      nil until cpu.call > enough if env["PATH_INFO"] == "/compute"
      [200, {"content-type" => "text/plain"}, ["#{Process.pid}"]]
    }
  RUBY

  def setup
    super
    File.write("#{@dir}/config.ru", APP)
  end

  def teardown
    @browser&.close
    super
  end

  def serve(*flags, config: "page", host: "127.0.0.1")
    @port = Ports.free
    File.write("#{@dir}/nb.rb", config)
    launch(*nb("serve", "-b", "tcp://#{host}:#{@port}", *flags), env: {"NB_WATCHDOG" => "100"})
  end

  def get(path, host: "127.0.0.1", **fields)
    Net::HTTP.start(host, @port) do |http|
      http.request(Net::HTTP::Get.new(path, fields.transform_keys(&:to_s)))
    end
  end

  def start_requests(*paths) = paths.map { |path| Thread.new { get(path) } }

  def snapshot = JSON.parse(get("/neverblock/snapshot").body)

  # A connection that takes events, with what came first.
  def viewer
    socket = TCPSocket.new("127.0.0.1", @port)
    socket.write("GET /neverblock/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    [socket, socket.gets("\r\n")]
  end
end
