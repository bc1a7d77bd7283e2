# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/subprocess"

# The system has no room for another fiber's stack. With stacks of 64 MiB and a limit on the address
# space that is so after 32 of them, while there is memory for everything else.
class ServerStacksTest < Minitest::Test
  PRELUDE = <<~'RUBY'
    $stdout.sync = true
    require "neverblock/server"
    require "socket"
    def forbid_more
      size = File.read("/proc/self/status")[/VmSize:\s+(\d+)/, 1].to_i * 1024
      Process.setrlimit(:AS, size + (40 << 20))
    end
    def serve(&app)
      $server = NB::Server.new(app, bind: "tcp://127.0.0.1:0", log: nil)
      NB.async { $server.run }
      sleep 0.001 until $server.ready?
      $server
    end
    def ask = TCPSocket.new("127.0.0.1", $server.port).tap { |s| s.write("GET / HTTP/1.0\r\n\r\n") }
    def status(socket) = socket.read[9, 3]
    # Raises in it what comes to the wrong fiber.
    def bystander = NB.async { sleep 0.001 until $stop }
  RUBY

  def test_requests_wait_for_the_fibers_there_are
    assert_equal "[{\"200\"=>50}, true, true, 0]\n", run_script(<<~'RUBY')
      NB.run do
        others = Array.new(5) { bystander }
        gate = Queue.new
        server = serve { [200, {}, [gate.pop]] }
        forbid_more
        sockets = Array.new(50) { ask }
        sleep 0.01 until server.stats[:queued] > 1 && server.stats[:fibers] > 8
        50.times { gate << "x" }
        tally = sockets.map { |socket| status(socket) }.tally
        $stop = true
        others.each(&:value)
        stats = server.stats
        puts [tally, stats[:fibers] < 40, stats[:queued].zero?, stats[:rejected_503]]
          .inspect.gsub(" => ", "=>")
        exit!(true)
      end
    RUBY
  end

  def test_without_any_fiber_the_request_is_refused_and_who_schedules_is_told
    assert_equal "[FiberError, [\"503\", \"503\"], \"200\"]\n", run_script(<<~'RUBY')
      NB.run do
        others = Array.new(5) { bystander }
        server = serve { [200, {}, ["x"]] }
        forbid_more
        gate = Queue.new
        error = begin
          100.times { Fiber.schedule { gate.pop } }
        rescue FiberError => raised
          raised.class
        end
        refused = Array.new(2) { status(ask) }
        gate.num_waiting.times { gate << 1 }
        sleep 0.05
        GC.start
        answered = status(ask)
        $stop = true
        others.each(&:value)
        p [error, refused, answered]
        exit!(true)
      end
    RUBY
  end

  FILL = <<~'RUBY'
    GATE = Queue.new
    def fill
      forbid_more
      100.times { Fiber.schedule { GATE.pop } }
    rescue FiberError
      nil
    end
    def make_room = GATE.num_waiting.times { GATE << 1 }
  RUBY

  TLS = <<~'RUBY'
    require "openssl"
    require "tmpdir"
    Dir.mktmpdir do |folder|
      key = OpenSSL::PKey::EC.generate("prime256v1")
      cert = OpenSSL::X509::Certificate.new
      cert.public_key, cert.not_before, cert.not_after = key, Time.now - 60, Time.now + 3600
      File.write("#{folder}/key", key.to_pem)
      File.write("#{folder}/cert", cert.sign(key, "SHA256").to_pem)
      $server = NB::Server.new(->(_) { [200, {}, ["x"]] }, log: nil,
        bind: "ssl://127.0.0.1:0?cert=#{folder}/cert&key=#{folder}/key")
    end
    NB.async { $server.run }
    sleep 0.001 until $server.ready?
    go, there = Queue.new, Queue.new
    clients = Array.new(3) do
      Thread.new do
        go.pop
        socket = TCPSocket.new("127.0.0.1", $server.port)
        there << socket
        OpenSSL::SSL::SSLSocket.new(socket).connect.then do |secure|
          secure.write("GET / HTTP/1.0\r\n\r\n")
          status(secure)
        end
      end
    end
  RUBY

  # While the server serves, and while it drains.
  [false, true].each do |drains|
    define_method("test_tls_connections_wait_for_a_fiber#{"_of_a_server_that_drains" if drains}") do
      assert_equal %(["200", "200", "200"]\n), run_script("#{FILL}NB.run do\n#{TLS}#{<<~RUBY}end")
        fill
        3.times { go << 1 }
        waiting = $server.instance_variable_get(:@bindings).first.instance_variable_get(:@waiting)
        3.times { there.pop } # whoever comes later, a server that drains refuses
        sleep 0.001 until waiting.any?
        $server.stop if #{drains}
        sleep 0.001 until $server.draining? == #{drains}
        make_room
        p clients.map(&:value)
        exit!(true)
      RUBY
    end
  end

  def test_other_threads_calls_go_on_when_there_are_fibers_again
    assert_equal %([FiberError, 1, "b"]\n), run_script(FILL + <<~'RUBY')
      NB.run do
        go, told = Queue.new, Queue.new
        serve do
          [200, {}, lambda { |stream|
            Thread.new do
              2.times { told << (stream.write(go.pop) rescue $!.class) }
              stream.close
            end
          }]
        end
        socket = ask
        sleep 0.001 until go.num_waiting == 1
        fill
        go << "a"
        results = [told.pop]
        make_room
        go << "b"
        p [*results, told.pop, socket.read[/.\z/]]
        exit!(true)
      end
    RUBY
  end

  private

  def run_script(source)
    env = { "RUBY_FIBER_MACHINE_STACK_SIZE" => (64 << 20).to_s, "MALLOC_ARENA_MAX" => "1" }
    result = Subprocess.ruby(PRELUDE + source, env: env, limit: 90)
    refute result.hung, "still running; #{result.out} #{result.err}"
    assert_empty result.err
    result.out
  end
end
