# frozen_string_literal: true

require_relative "helper"
require_relative "outside"
require_relative "../support/timing"

# slowhttptest: many clients at once that send or read next to nothing. Each is ended by its
# timeout, and meanwhile everybody else is answered as ever.
class ServerSlowTest < Minitest::Test
  include ServerTest
  include Outside

  LARGE = ("x" * (1 << 20)).freeze
  # How many clients, and what they do. For each that does not read, the kernel takes 1 MB from us
  # at once, at 2 ms per MB: more of them are a test of its memory.
  ATTACKS = {
    "slow headers" => [300, "-H", "-x", 24],
    "slow body" => [300, "-B", "-s", 100_000, "-x", 24],
    "slow read" => [100, "-X", "-k", 2, "-n", 1, "-w", 512, "-y", 1024, "-z", 32],
    "ranges" => [300, "-R", "-a", 10, "-b", 3000]
  }.freeze

  ATTACKS.each do |name, (clients, *flags)|
    define_method("test_#{name.tr(" ", "_")}") do
      serve(header_timeout: 1, body_timeout: 1, write_timeout: 1, body_memory_bytes: 1000) do |env|
        [200, {}, [env["PATH_INFO"] == "/large" ? LARGE : "hello"]]
      end
      times = meanwhile_answered do
        run_program("slowhttptest", *flags, "-c", clients, "-r", clients, "-i", 1, "-l", 3, "-p", 3,
          "-u", "http://127.0.0.1:#{@server.port}/large")
      end
      assert_operator @server.stats[:accepted], :>=, clients
      eventually { @server.stats[:connections] <= 1 }
      assert_in_time times.sort[times.size * 8 / 10], 0.5, "most answers to somebody else"
      assert_equal "", @log.string
    end
  end

  # Asks on one connection, and on a new one each time, until the block is over.
  # Who waits for slow clients to be ended waits a second. So does, now and then, who has no CPU.
  # @return [Array<Float>] seconds that the answers took
  def meanwhile_answered
    over = false
    times = []
    asking = Thread.new do
      socket = connect
      until over
        start = clock
        socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
        read_response(socket)
        get
        times << (clock - start)
        sleep 0.02
      end
      socket.close
    end
    yield
    over = true
    asking.join
    times
  end
end
