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
    options = {early_hints: true, log: log = StringIO.new, access_log: access_log = StringIO.new, body_memory_bytes: 10_000}
    NB.run do
      [false, true].each do |streaming|
        server = NB::Server.new(app, bind: "tcp://127.0.0.1:0", body_streaming: streaming, **options)
        GC.verify_compaction_references(toward: :empty) if ARGV[0] == "compact" # as before_fork { GC.compact }
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
    access_log.string.lines.size == 2 * requests.size or abort "access log:\n#{access_log.string}"
    log.string.scan("oops").size == 2 or abort "log:\n#{log.string}"
    puts "well"
  RUBY

  # A request's fiber is made below whoever looks what the kernel has. Here that is a method whose
  # locals are gone, and their memory full of addresses where nothing is, when the body comes.
  MADE_BY_ANOTHER = <<~'RUBY'
    require "neverblock/server"
    NOWHERE = [0x7f00_dead_0008].pack("Q")
    LOCALS = 200
    eval <<~METHOD
      def ask(port, gate, count)
        #{Array.new(LOCALS) { |i| "l#{i}" }.join(" = ")} = nil
        proc {} # takes them to the heap
        socket = TCPSocket.new("127.0.0.1", port)
        socket.write("GET / HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n")
        Fiber.scheduler.yield until gate.num_waiting == count
        socket
      end
    METHOD
    gate, asked = Array.new(2) { Thread::Queue.new }
    body = Class.new { def each(&block) = %w[a b].each(&(@kept = block)) }
    app = ->(_env) { gate.pop && [200, {}, body.new] }
    NB.run do
      server = NB::Server.new(app, bind: "tcp://127.0.0.1:0")
      Fiber.schedule { server.run }
      Fiber.scheduler.yield until server.ready?
      sockets = Array.new(20) do |i|
        Fiber.schedule { asked << ask(server.port, gate, i + 1) }
        asked.pop
      end
      3.times { GC.start }
      filled = Array.new(30) { |n| Array.new(200) { NOWHERE * (LOCALS + n) } }
      sockets.each { gate << filled }
      print sockets.count { |socket| socket.read.end_with?("a\r\n1\r\nb\r\n0\r\n\r\n") }
      server.stop
    end
  RUBY

  # A fiber beside the request asks for early hints, and their Hash waits until the server is gone.
  AFTER_THE_SERVER = <<~'RUBY'
    require "neverblock/server"
    GATE, SAID = Array.new(2) { Thread::Queue.new }
    slow = Class.new { def each = GATE.pop && yield("link", "</a>") }
    App = Class.new do
      define_method(:later) do |hints|
        Fiber.schedule { SAID << begin hints.call(slow.new) rescue $!.class end }
      end
      def call(env)
        later(env["rack.early_hints"])
        env.clear
        [200, {}, []]
      end
    end
    def start(server) = Fiber.schedule { server.run }
    def ask
      start(server = NB::Server.new(App.new, bind: "tcp://127.0.0.1:0", early_hints: true))
      Fiber.scheduler.yield until server.ready?
      socket = TCPSocket.new("127.0.0.1", server.port)
      socket.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      socket.read
      server.stop
    end
    def overwrite(depth) = depth.zero? ? nil : overwrite(depth - 1)
    NB.run do
      Fiber.schedule { ask }
      30.times { sleep 0.01; overwrite(50); GC.start }
      cores = ObjectSpace.each_object(NB::Server::Core).count
      GATE << true
      print cores, SAID.pop
    end
  RUBY

  def test_early_hints_after_the_end_of_the_server
    result = Subprocess.ruby(AFTER_THE_SERVER, limit: 300)
    assert_equal "1IOError", result.out, result.err[0, 3000]
  end

  def test_the_locals_of_whoever_made_a_requests_fiber
    result = Subprocess.ruby(MADE_BY_ANOTHER, limit: 300)
    assert_equal "20", result.out, result.err[0, 3000]
  end

  %w[stress compact].each do |mode|
    define_method("test_gc_#{mode}") do
      script = "ARGV.replace([#{mode.inspect}])\n#{"GC.auto_compact = true\n" if mode == "compact"}#{PROGRAM}"
      result = Subprocess.ruby(script, limit: 300)
      assert_equal "well\n", result.out, result.err[0, 3000]
    end
  end
end
# rubocop:enable Layout/LineLength
