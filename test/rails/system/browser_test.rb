# frozen_string_literal: true

require "minitest/autorun"
require "json"
require "rbconfig"
require "tmpdir"
require_relative "../../support/servers"

# Two headless Chromiums talk to each other over ActionCable and listen to ActionController::Live,
# under both ways to serve Rails. The page (app/page.html) tells a socket of the test what it saw.
class BrowserTest < Minitest::Test
  APP = File.join(__dir__, "app")
  LIB = File.expand_path("../../../lib", __dir__)
  # Seconds for Chromium to start and the page to end.
  PATIENCE = 60

  def test_rails_server_with_neverblock
    browse(server("talk-neverblock", "-u", "neverblock")) do |seen|
      # One by one, not all at the end. (Puma 8 itself collects short chunks for 200 ms.)
      assert_operator seen["gaps"].drop(1).count { |gap| gap >= 25 }, :>=, 2, seen.to_s
    end
  end

  def test_puma_with_the_plugin
    browse(server("talk-puma", "-u", "puma"))
  end

  private

  def server(name, *options)
    Servers.fetch(name) do |port, folder|
      ["env", "RUBYLIB=#{LIB}", "RAILS_ENV=test", RbConfig.ruby, File.join(APP, "bin/rails"),
       "server", *options, "-b", "127.0.0.1", "-p", port.to_s, "-P", File.join(folder, "pid")]
    end
  end

  def browse(server)
    witness = TCPServer.new("127.0.0.1", 0)
    seen = with_browsers(server, witness, %w[anna ben]) { 2.times.map { report(witness) } }

    seen.sort_by { |one| one["who"] }.zip(%w[anna ben]) do |one, name|
      assert_equal [name, [], %w[anna ben]], one.values_at("who", "errors", "heard"), one.to_s
      assert_equal %w[0 1 2 3 4], one["ticks"]
      yield one if block_given?
    end
  ensure
    witness&.close
  end

  def with_browsers(server, witness, names)
    Dir.mktmpdir("nb-chromium") do |folder|
      pids = names.map do |name|
        url = "http://127.0.0.1:#{server.port}/?who=#{name}&witness=#{witness.local_address.ip_port}"
        # With a port to be controlled by, it stays until it is ended.
        Process.spawn("chromium", "--headless", "--no-sandbox", "--disable-gpu",
                      "--remote-debugging-port=0", "--user-data-dir=#{folder}/#{name}", url,
                      in: File::NULL, out: File.join(folder, "log.txt"), err: %i[child out],
                      pgroup: true)
      end
      yield
    ensure
      pids&.each { |pid| Process.kill(:KILL, -pid) && Process.wait(pid) }
    end
  end

  # The body of the one request that a browser sends.
  def report(witness)
    assert witness.wait_readable(PATIENCE), "no browser has told anything"
    socket = witness.accept
    head = socket.gets("\r\n\r\n")
    JSON.parse(socket.read(head[/content-length: *(\d+)/i, 1].to_i))
  ensure
    socket&.write("HTTP/1.1 204 No Content\r\n\r\n")
    socket&.close
  end
end
