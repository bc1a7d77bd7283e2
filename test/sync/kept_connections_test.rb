# frozen_string_literal: true

require "minitest/autorun"
require "net/http"
require "neverblock"
require_relative "../support/certificates"
require_relative "../support/patience"
require_relative "../support/servers"

# NB::HTTP.persistent before nginx, which closes what it keeps: after a second without a request,
# after ten requests, and when it is stopped.
class KeptConnectionsTest < Minitest::Test
  include Patience

  NGINX = <<~CONF
    daemon off;
    pid %<folder>s/pid;
    events { worker_connections 256; }
    http {
      log_format kept "$request_method $connection";
      access_log %<folder>s/access.log kept;
      keepalive_timeout 1;
      keepalive_requests 10;
      ssl_certificate %<folder>s/certificate.pem;
      ssl_certificate_key %<folder>s/key.pem;
      server { listen 127.0.0.1:%<port>d%<tls>s; location / { return 200 "done"; } }
    }
  CONF

  def teardown
    @client&.close
    Servers.stop(@server.name) if @server
  end

  { "plain" => "", "tls" => " ssl" }.each do |name, tls|
    define_method("test_each_request_is_answered_once_#{name}") do
      start(name, tls)
      NB.run do
        3.times do
          assert_equal(["200"] * 60, NB.map(1..60, concurrency: 5) { ask.code })
          eventually { open_connections.zero? } # it has closed them, and nobody has noticed yet
          assert_operator @client.stats[:idle], :>, 0
        end
      end
      eventually { requests.size >= 180 } # it writes them after its answers
      asked = requests
      assert_equal [180, 180], [asked.size, asked.grep(/\APOST /).size]
      assert_operator asked.tally.values.max, :<=, 10
      assert_operator asked.uniq.size, :<, 60
    end
  end

  # Those that were open are of the process before.
  def test_it_is_restarted
    start("plain", "")
    NB.run do
      [20, 40].each do |asked|
        assert_equal(["200"] * 20, NB.map(1..20, concurrency: 5) { ask.code })
        eventually { requests.size == asked } # nginx may write after the answer
        Servers.restart(@server) do
          errors = NB.map(1..20, concurrency: 5, errors: :return) { ask }
          assert_equal [Errno::ECONNREFUSED], errors.map(&:class).uniq
        end
      end
      assert_equal "200", ask.code
    end
    eventually { requests.size >= 41 }
    assert_equal 41, requests.size
    assert_equal 0, @client.stats[:in_use]
  end

  private

  def start(name, tls)
    @server = Servers.fetch("nginx-#{name}-#{object_id}") do |port, folder|
      File.write("#{folder}/key.pem", Certificates::KEY.to_pem)
      File.write("#{folder}/certificate.pem", Certificates.certificate.to_pem)
      File.write("#{folder}/nginx.conf", format(NGINX, folder: folder, port: port, tls: tls))
      ["nginx", "-c", "#{folder}/nginx.conf", "-e", "#{folder}/error.log"]
    end
    scheme = tls.empty? ? "http" : "https"
    @client = NB::HTTP.persistent("#{scheme}://127.0.0.1:#{@server.port}", size: 5) do |http|
      http.verify_mode = OpenSSL::SSL::VERIFY_NONE
    end
  end

  def ask = @client.post("/", "body")

  # What it has answered, as "POST 7" with the number of the connection.
  def requests = File.readlines("#{@server.folder}/access.log", chomp: true).grep(/\A[A-Z]+ /)

  # That it has not closed; ours of then stay half open.
  def open_connections
    local = format(":%04X", @server.port)
    File.readlines("/proc/net/tcp").count do |line|
      _, from, _, state = line.split
      from.end_with?(local) && state == "01"
    end
  end
end
