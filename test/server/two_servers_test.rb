# frozen_string_literal: true

require_relative "helper"
require "json"
require "net/http"
require "neverblock"

# Two servers in one loop, each with the page mounted.
class TwoServersTest < Minitest::Test
  include ServerTest

  def app(gate)
    page = NB::Page::Mount.new(->(_env) { gate.pop && [200, TEXT, ["on"]] }, "/page", NB::Page.new)
    NB::Server.new(page, bind: "tcp://127.0.0.1:0", log: @log = StringIO.new)
  end

  def run_both
    NB.run do
      gate = Thread::Queue.new
      servers = Array.new(2) { app(gate) }
      servers.each { |server| start(server) }
      asked = servers.zip(%w[/a /b]).map { |server, path| NB.async { get_at(server, path) } }
      NB.yield until servers.all? { |server| server.running.any? }
      yield servers
      2.times { gate << true }
      asked.each(&:value)
      servers.each(&:stop)
    end
  end

  def start(server)
    started = Thread::Queue.new
    NB.async { server.run { started << true } }
    started.pop
  end

  def get_at(server, path) = Net::HTTP.get_response(URI("http://127.0.0.1:#{server.port}#{path}"))

  def paths(server)
    found = JSON.parse(get_at(server, "/page/snapshot?frames=0").body)
    found["requests"].map { |request| request["path"] }.grep_v(/snapshot/)
  end

  def test_each_page_tells_of_its_own_server
    run_both do |servers|
      assert_equal [%w[/a], %w[/b]], (servers.map { |server| paths(server) })
      assert_equal [%w[/b], %w[/a]], (servers.reverse.map { |server| paths(server) })
    end
  end

  def test_each_page_sends_events_of_its_own_server
    run_both do |servers|
      found = servers.map do |server|
        socket = TCPSocket.new("127.0.0.1", server.port)
        socket.write("GET /page/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        line = nil
        line = socket.gets until line&.start_with?("data: ")
        socket.close
        JSON.parse(line.delete_prefix("data: "))["requests"].map { |request| request["path"] }
      end
      assert_equal [%w[/a], %w[/b]], (found.map { |all| all.grep(%r{\A/[ab]\z}) })
    end
  end
end
