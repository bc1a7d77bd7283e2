# frozen_string_literal: true

require_relative "../support/transparency"
require_relative "../support/s3_server"
require "aws-sdk-s3"

# aws-sdk-s3, on Net::HTTP with a pool of connections. It computes for milliseconds per request
# (signatures, plugins, XML), so fewer at once fit into the time.
class AWSS3Test < Transparency
  PROGRAM = File.expand_path("../support/s3_server.rb", __dir__)

  library "aws-sdk-s3", group: "HTTP", gems: %w[aws-sdk-s3 aws-sdk-core],
          server: -> { AWSS3Test.s3(0.1) },
          against: -> { "our own server that checks signatures" }

  def self.s3(delay)
    Servers.fetch("s3-#{delay}") do |port, _|
      [RbConfig.ruby, "--disable-gems", PROGRAM, port.to_s, delay.to_s]
    end
  end

  waits "put_object" do
    s3 = client
    together(10) { |i| put(s3, i) }
    measure(count: 10) { |i| put(s3, i) }
  end

  waits "get_object" do
    s3 = client
    together(10) { |i| put(s3, i) }
    bodies = measure(count: 10) { |i| s3.get_object(bucket: "nb", key: i.to_s).body.read }
    assert_equal Array.new(10) { |i| "object #{i}" }, bodies
  end

  waits "connect by a host name that resolves late" do
    name = name_late
    s3 = client(host: name, port: self.class.s3(0).port)
    measure(count: 10, delay: 0.3) { |i| put(s3, i) }
  end

  fails "wrong secret" do
    put(client(secret: "wrong"), 1)
  end

  fails "no such key" do
    client.get_object(bucket: "nb", key: "none")
  end

  fails "refused" do
    put(client(port: Proxies.nobody), 1)
  end

  fails "unknown host" do
    put(client(host: "unknown.invalid"), 1)
  end

  fails "read timeout" do
    put(client(port: self.class.s3(1).port, timeout: 0.1), 1)
  end

  fails "reset in mid-result" do
    put(client(port: Proxies.cut(server.port, after: 10)), 1)
  end

  # Its pool is the process's.
  def closes? = false

  private

  def put(s3, number) = s3.put_object(bucket: "nb", key: number.to_s, body: "object #{number}")

  def client(host: "127.0.0.1", port: server.port, secret: S3Server::SECRET, timeout: 5)
    Aws::S3::Client.new(
      endpoint: "http://#{host}:#{port}", region: "us-east-1", force_path_style: true,
      access_key_id: S3Server::KEY, secret_access_key: secret, retry_limit: 0,
      http_read_timeout: timeout, request_checksum_calculation: "when_required"
    )
  end
end
