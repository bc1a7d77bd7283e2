# frozen_string_literal: true

require_relative "helper"
require "tmpdir"
require_relative "../support/certificates"
require "neverblock/server/snapshot_text"

# What the server's own fibers are called in `nb dump`, `nb top` and NB.dump.
class ServerFiberNamesTest < Minitest::Test
  include ServerTest

  def serve_secure
    Dir.mktmpdir("nb-names") do |folder|
      File.write("#{folder}/key", Certificates::KEY.to_pem)
      File.write("#{folder}/cert", Certificates.certificate.to_pem)
      serve(HELLO, bind: "ssl://127.0.0.1:0?cert=#{folder}/cert&key=#{folder}/key")
    end
  end

  def names = @server.snapshot[:fibers].filter_map { |fiber| fiber[:name] }

  OWN = ["the server", "the server's calls from other threads"].freeze

  def test_the_snapshot_names_them
    serve_secure
    accept = "the server's accept, ssl://127.0.0.1:#{@server.port}"
    eventually { names.sort == [*OWN, accept].sort }
    connect
    eventually { names.include?("a TLS connection") }
    text = NB::Server::SnapshotText.process(@server.snapshot).join("\n")
    assert_match(/^fiber the server waits .* for /, text)
  end

  def test_the_dump_names_them
    serve(HELLO)
    eventually { OWN.all? { |name| NB::Dump.all.include?("\n  is #{name}\n") } }
  end

  def test_a_draining_server_waits_for_its_connections
    release = Thread::Queue.new
    serve { |_env| [200, TEXT, [release.pop]] }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:running] == 1 }
    @server.stop
    drain = eventually { @server.snapshot[:fibers].find { |one| one[:name]&.include?("drains") } }
    assert_match(/\A#<NB::Server::Core:0x\h+>\z/, drain[:waits_for])
  ensure
    release << "end"
  end

  # A fiber is used again, by others.
  def test_a_name_ends_with_its_block
    NB.run do
      fiber = NB::FiberNames.schedule("one") { sleep 0.001 }
      assert_equal [[fiber, "one"]], NB::FiberNames.all
      NB::FiberNames.within("outer") { NB::FiberNames.within("inner") { sleep 0.01 } }
      assert_empty NB::FiberNames.all
    end
  end

  # As on the page of an application that another server runs.
  def test_a_process_without_a_loop_says_so
    lines = NB::Server::SnapshotText.process(NB::Server::Snapshot.new(nil, nil).to_h)
    assert_equal "process #{Process.pid}: no loop runs", lines.first
  end
end
