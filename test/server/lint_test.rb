# frozen_string_literal: true

require_relative "helper"
require "open3"

# The same small application under Rack::Lint, once per Rack version that is installed.
class ServerLintTest < Minitest::Test
  PROGRAM = <<~'RUBY'
    require "uri" # Lint of Rack 2.2 uses it without
    gem "rack", ARGV[0]
    require "rack"
    require "rack/lint"
    require "neverblock"
    require "neverblock/server"
    require "socket"
    header = ->(name) { Rack.release < "3" ? name.split("-").map(&:capitalize).join("-") : name }
    text = {header["content-type"] => "text/plain"}
    app = lambda do |env|
      case env["PATH_INFO"]
      when "/array" then [200, text, ["a", "b"]]
      when "/each" then [200, text, Enumerator.new { |out| out << "a" << "b" }]
      when "/echo" then [200, text, [env["rack.input"].read.to_s]]
      when "/none" then [204, {}, []]
      when "/stream" then [200, text, ->(stream) { stream.write("ab"); stream.close }]
      else [404, text, []]
      end
    end
    requests = ["GET /array", "HEAD /array", "GET /each", "GET /none", "GET /unknown?a=b", "OPTIONS /array",
                "POST /echo", "PUT /array"]
    requests << "GET /stream" if Rack.release >= "3"
    requests << "OPTIONS *" if Rack.release >= "3.1"
    NB.run do
      server = NB::Server.new(Rack::Lint.new(app), bind: "tcp://127.0.0.1:0")
      Fiber.schedule { server.run }
      sleep 0.01 until server.ready?
      requests.each do |request|
        socket = TCPSocket.new("127.0.0.1", server.port)
        body = request.start_with?("P") ? "Content-Length: 2\r\n\r\nab" : "\r\n"
        socket.write("#{request} HTTP/1.1\r\nHost: a:1\r\nAccept: */*\r\nConnection: close\r\n#{body}")
        puts "#{request}: #{socket.read[/\d{3}/]}"
      end
      server.stop
    end
  RUBY

  %w[2.2 3.0 3.1 3.2].each do |series|
    define_method("test_rack_#{series}") do
      spec = Gem::Specification.find_all_by_name("rack", "~> #{series}.0").first
      skip "rack #{series} is not installed" unless spec
      out, status = Open3.capture2e(RbConfig.ruby, *$LOAD_PATH.map { |path|
 "-I#{path}" }, "-e", PROGRAM, spec.version.to_s)
      assert status.success?, out
      statuses = out.scan(/: (\d+)$/).flatten
      assert_operator statuses.size, :>=, 8, out
      refute_includes statuses, "500", out
      refute_match(/LintError/, out)
    end
  end
end
