# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require_relative "../support/subprocess"

# Every way of a request while the garbage collector runs at each allocation, and while it moves
# objects. In a process of its own: a mistake there is a crash.
class ServerGcTest < Minitest::Test
  PROGRAM = <<~'RUBY'
    require "neverblock/server"
    require "stringio"
    File.write(path = "/tmp/nb-gc-#{Process.pid}", "file" * 5000)
    file = Struct.new(:to_path).new(path)
    parts = Class.new { def each = 3.times { |i| yield "part#{i}" * (i == 2 ? 5000 : 1) } }
    app = lambda do |env|
      case env["PATH_INFO"]
      when "/array" then [200, {"X-Long" => "y" * 100, "set-cookie" => %w[a b]}, ["a" * 10, "b" * 100_000]]
      when "/each" then [200, {}, parts.new]
      when "/file" then [200, {}, file]
      when "/echo" then [200, {"content-type" => "text/plain"}, [env["rack.input"].read]]
      when "/stream" then [200, {}, ->(stream) { Fiber.schedule { stream << stream.read.to_s << "end"; stream.close } }]
      when "/hijack" then env["rack.hijack"].call.tap { |io| io.write("HTTP/1.1 200 OK\r\n\r\nmine"); io.close }
      when "/hints"
        env["rack.early_hints"].call("link" => "</a>")
        env["rack.response_finished"] << ->(*) { GC.start }
        [200, {}, [env["HTTP_X_UNKNOWN"] + env["HTTP_COOKIE"]]]
      when "/raise" then raise "oops"
      when "/wait" then sleep(0.001) && [200, {}, ["waited"]]
      end
    end
    long = "0123456789" * 3000
    chunked = "Transfer-Encoding: chunked\r\n\r\n7530\r\n#{long}\r\n0\r\n\r\n"
    requests = [
      ["GET /array", "\r\n", "b" * 100_000], ["GET /each", "\r\n", "part2"], ["GET /file", "\r\n", "filefile"],
      ["POST /echo", "Content-Length: 30000\r\n\r\n#{long}", long], ["POST /echo", chunked, long],
      ["POST /echo", "Content-Length: 3\r\n\r\nabc", "abc"], ["POST /stream", chunked, "end"],
      ["GET /hijack", "\r\n", "mine"], ["GET /hints", "X-Unknown: u\r\nCookie: a\r\nCookie: b\r\n\r\n", "ua; b"],
      ["GET /raise", "\r\n", "500"], ["GET /wait", "\r\n", "waited"]
    ]
    ask = lambda do |server, line, rest|
      socket = TCPSocket.new("127.0.0.1", server.port)
      socket.write("#{line} HTTP/1.1\r\nHost: a.example:80\r\nConnection: close\r\n#{rest}")
      socket.read
    ensure
      socket&.close
    end
    options = {early_hints: true, log: StringIO.new, access_log: StringIO.new, body_memory_bytes: 10_000}
    NB.run do
      [false, true].each do |streaming|
        server = NB::Server.new(app, bind: "tcp://127.0.0.1:0", body_streaming: streaming, **options)
        Fiber.schedule { server.run }
        sleep 0.001 until server.ready?
        requests.each do |line, rest, expected|
          GC.stress = 1 if ARGV[0] == "stress" # minor ones only: full ones take minutes
          answer = ask.call(server, line, rest)
          GC.stress = false
          GC.verify_compaction_references if ARGV[0] == "compact"
          answer.include?(expected) or abort "#{line} #{streaming}: #{answer[0, 300]}"
        end
        server.stop
      end
    end
    File.unlink(path)
    puts "well"
  RUBY

  %w[stress compact].each do |mode|
    define_method("test_gc_#{mode}") do
      script = "ARGV.replace([#{mode.inspect}])\n#{"GC.auto_compact = true\n" if mode == "compact"}#{PROGRAM}"
      result = Subprocess.ruby(script, limit: 60)
      assert_equal "well\n", result.out, result.err[0, 3000]
    end
  end
end
# rubocop:enable Layout/LineLength
