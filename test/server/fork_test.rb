# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/script_case"

# An application forks while the server has connections of all kinds: they are the parent's.
class ServerForkTest < ScriptCase
  SERVE = <<~'RUBY'
    require "neverblock/server"
    HEAD = "HTTP/1.1\r\nHost: a\r\n"
    # Serves the app beside the block, which gets to know the port.
    def serve(app, **options)
      NB.run do
        $server = NB::Server.new(app, bind: "tcp://127.0.0.1:0", **options)
        NB.async { $server.run }
        sleep 0.001 until $server.ready?
        yield $server.port
        $server.stop.stop
      end
    end
    def connect(port) = TCPSocket.new("127.0.0.1", port)
    def ask(client, path, fields = "") = client.write("GET #{path} #{HEAD}#{fields}\r\n")
    def answer(client)
      head = client.gets("\r\n\r\n")
      client.read(head[/content-length: (\d+)/, 1].to_i)
    end
    def sockets = Dir.children("/proc/self/fd").count { |fd| File.readlink("/proc/self/fd/#{fd}").start_with?("socket:") rescue nil }
  RUBY

  # The head is half there when the application forks; its deadline is in the child's life only. From
  # Ruby 4.0 on the child has no loop.
  script "connections and deadlines are not the child's", SERVE + <<~'RUBY', out: "#{RUBY_VERSION >= "4" ? "nil" : "[0, 0, 0]"}\n0\nfirst\nsecond\n", only: :fibers
    app = lambda do |env|
      next [200, {}, [env["PATH_INFO"][1..]]] unless env["PATH_INFO"] == "/fork"

      before = sockets
      told, tell = IO.pipe
      pid = fork do
        p NB.stats&.values_at(:timers, :watches, :parked)
        p before - sockets - 3
        tell.close
        sleep 4.3
        exit!(0)
      end
      tell.close
      told.read
      [200, {}, [pid.to_s]]
    end
    serve(app, header_timeout: 4) do |port|
      half, forks, idle = Array.new(3) { connect(port) }
      ask(idle, "/idle")
      answer(idle)
      half.write("GET /first #{HEAD}")
      sleep 0.001 until $server.stats[:connections] == 3
      ask(forks, "/fork")
      pid = answer(forks).to_i
      half.write("\r\n")
      puts answer(half)
      Process.wait(pid)
      ask(half, "/second")
      puts answer(half)
    end
  RUBY

  # Without a free fd the server accepts again after a while, in which the application forks.
  script "the child accepts nobody", SERVE + <<~'RUBY', out: "parent parent\n", only: :fibers
    parent = Process.pid
    late = nil
    app = lambda do |env|
      next [200, {}, [Process.pid == parent ? "parent" : "child"]] unless env["PATH_INFO"] == "/fork"

      NB.blocking { late = connect($server.port) }
      ask(late, "/")
      limit = Process.getrlimit(:NOFILE)
      Process.setrlimit(:NOFILE, (0..).find { |fd| !File.exist?("/proc/self/fd/#{fd}") }, limit.last)
      3.times { sleep 0.001 }
      Process.setrlimit(:NOFILE, *limit)
      pid = fork { 60.times { sleep 0.005 }; exit!(0) }
      NB.blocking { Process.wait(pid) } # the child alone could serve it
      [200, {}, ["parent"]]
    end
    serve(app) do |port|
      client = connect(port)
      ask(client, "/fork")
      puts [client, late].map { |io| answer(io || late) }.join(" ")
    end
  RUBY

  script "the application returns in the child too", SERVE + <<~'RUBY', out: "parent 0, log: 1 line\nagain\n", only: :fibers
    log = []
    log.define_singleton_method(:write) { |line| push(line) }
    app = lambda do |env|
      next [200, {}, ["again"]] unless env["PATH_INFO"] == "/fork"

      (env["rack.response_finished"] ||= []) << -> (*) { $stderr.write("finished in the child") unless Process.pid == $parent }
      pid = fork
      Process.wait(pid) if pid
      [200, {}, ["#{pid ? "parent" : "child"} #{$?&.exitstatus}"]]
    end
    $parent = Process.pid
    serve(app, access_log: log) do |port|
      client = connect(port)
      ask(client, "/fork")
      first = answer(client)
      sleep 0.001 until log.size == 1
      puts "#{first}, log: #{log.size} line"
      ask(client, "/", "connection: close\r\n")
      puts client.read.lines.last
    end
  RUBY

  script "the application raises and exits in the child", SERVE + <<~'RUBY', out: "[1, 3]\n", err: /raised in the child/, only: :fibers
    app = lambda do |env|
      pid = fork
      next [200, {}, [Process.wait2(pid).last.exitstatus.to_s]] if pid

      env["PATH_INFO"] == "/exit" ? exit(3) : raise("raised in the child")
    end
    serve(app) do |port|
      client = connect(port)
      p(%w[/raise /exit].map { |path| ask(client, path); answer(client).to_i })
    end
  RUBY

  script "what the child does with the request's own socket", SERVE + <<~'RUBY', out: "Errno::EPIPE IOError true\nthe parent's\n", only: :fibers
    streams = []
    app = lambda do |env|
      if env["PATH_INFO"] == "/stream"
        streams << env["rack.hijack"]
        sleep 0.001 until $done
        next [200, {}, ["the other's"]]
      end
      own = env["rack.hijack"]
      Process.wait(fork do
        words = [own, *streams].map { |io| io.call.write("the child's") rescue $!.class }
        puts "#{words.join(" ")} #{$server.stats[:connections].zero?}"
        exit!(0)
      end)
      $done = true
      [200, {}, ["the parent's"]]
    end
    serve(app) do |port|
      other, client = connect(port), connect(port)
      ask(other, "/stream")
      sleep 0.001 until streams.any?
      ask(client, "/")
      puts answer(client)
      answer(other) == "the other's" or raise
    end
  RUBY
end
# rubocop:enable Layout/LineLength
