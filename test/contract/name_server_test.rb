# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "tmpdir"
require_relative "../support/script_case"
require_relative "../support/name_server"

# A slow name server stops no fiber, however the name is asked for; the same name asked for by many
# at once is asked for once; an unknown name fails as without a loop.
class NameServerTest < ScriptCase
  TICK = <<~RUBY + <<~'RUBY'
    require "net/http"
    require #{File.expand_path("../support/ticker", __dir__).dump}
  RUBY
    # An answer takes a second; of a gap the time that the machine took does not count.
    def largest_gap
      ticker = Ticker.new
      ticking = go { ticker.run || true }
      value = yield
      ticker.stop
      finish(ticking)
      [value, ticker.largest < 0.6 ? :flowing : ticker.worst.to_s]
    end
    def listening
      server = TCPServer.new("127.0.0.1", 0)
      serving = go { s = server.accept; s.gets; s.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); s.close }
      value = yield server.addr[1]
      finish(serving)
      value
    end
  RUBY

  ASKING = {
    "Addrinfo.getaddrinfo" => 'Addrinfo.getaddrinfo("slow.test", 80, nil, :STREAM).map(&:ip_address)',
    "TCPSocket.getaddress" => 'TCPSocket.getaddress("slow.test")',
    "TCPSocket.new" => 'listening { |port| s = TCPSocket.new("slow.test", port); s.puts; s.read.lines.last }',
    "TCPSocket.new with a timeout" =>
      'listening { |port| s = TCPSocket.new("slow.test", port, connect_timeout: 3); s.puts; s.read.lines.last }',
    "TCPSocket.new that is to race addresses" => 'listening { |port| s = TCPSocket.new("slow.test", port, ' \
      '**(RUBY_VERSION < "3.4" ? {} : { fast_fallback: true })); s.puts; s.read.lines.last }',
    "Socket.tcp" => 'listening { |port| s = Socket.tcp("slow.test", port); s.puts; s.read.lines.last }',
    "Net::HTTP" => 'listening { |port| Net::HTTP.get(URI("http://slow.test:#{port}/")) }',
    "UDPSocket#connect" => 'UDPSocket.new.connect("slow.test", 9)',
    "an unknown name" => 'begin; TCPSocket.new("unknown.invalid", 1); rescue SocketError => e; e.class < StandardError; end'
  }.freeze
  EXPECTED = {
    "Addrinfo.getaddrinfo" => ["127.0.0.1"], "TCPSocket.getaddress" => "127.0.0.1", "TCPSocket.new" => "ok",
    "TCPSocket.new with a timeout" => "ok", "TCPSocket.new that is to race addresses" => "ok", "Socket.tcp" => "ok", "Net::HTTP" => "ok",
    "UDPSocket#connect" => 0, "an unknown name" => true
  }.freeze

  def self.asks(name, source, answer, queries: nil)
    Worlds.all.each do |world|
      define_method("test_#{name.gsub(/\W+/, "_")}_#{world.name}") do
        skip "needs user namespaces" unless NameServer.available?
        result = ask(source, world.name)
        assert_equal answer, result.out, result.err
        assert_operator result.err.scan("query").size, :<=, queries,
"queries" if queries && world.fibers?
      end
    end
  end

  ASKING.each do |name, source|
    asks name, "p(inside { largest_gap { #{source} } })",
"#{[EXPECTED.fetch(name), :flowing].inspect}\n"
  end

  # Who answers now is believed at once: only an answer is kept for a while.
  Worlds.all.each do |world|
    define_method("test_a_name_that_was_unknown_is_asked_for_anew_#{world.name}") do
      skip "needs user namespaces" unless NameServer.available?
      queries = [1, 2].map do |count|
        result = ask("inside { #{count}.times { Addrinfo.ip('unknown.invalid') rescue p($!.class < StandardError) } }", world.name)
        assert_equal "true\n" * count, result.out, result.err
        result.err.scan("query").size
      end
      assert_operator queries.last, :>, queries.first
    end
  end

  asks "fifty at once ask once", <<~'RUBY', "[[[\"127.0.0.1\"]], :flowing]\n", queries: 2
    p(inside do
      largest_gap do
        asking = Array.new(50) { go { Addrinfo.getaddrinfo("slow.test", 80, nil, :STREAM).map(&:ip_address) } }
        asking.map { |one| finish(one) }.uniq
      end
    end)
  RUBY

  # More names than native threads look up at a time.
  asks "a file waits for no name server, and nothing is written after it was given up", <<~'RUBY', "[true, \"last\"]\n"
    require "tempfile"
    p(inside do
      answered = 0
      asking = Array.new(80) { |i| go { Addrinfo.getaddrinfo("slow#{i}.test", 80) && answered += 1 } }
      sleep 0.1
      Tempfile.create do |file|
        writing = go { file.write("A" * 1_000_000) }
        begin
          Timeout.timeout(0.7) { finish(writing) }
        rescue Timeout::Error
          writing.cancel
        end
        first = answered.zero?
        file.truncate(0)
        file.rewind
        file.write("last")
        file.flush
        asking.each { |one| finish(one) }
        [first, File.read(file.path)]
      end
    end)
  RUBY

  asks "a timeout does not wait for the answer", <<~'RUBY', "[true, :flowing]\n"
    p(inside do
      largest_gap do
        answered = false
        asking = go { Addrinfo.getaddrinfo("slow.test", 80) && answered = true }
        begin
          Timeout.timeout(0.1) { Addrinfo.getaddrinfo("slow.test", 80) }
        rescue Timeout::Error
          PLAIN || !answered
        ensure
          finish(asking)
        end
      end
    end)
  RUBY

  if RUBY_VERSION >= "3.4" # before, it is passed over
    late = ["Connection timed out - user specified timeout"] * 2
    late = ["slow0.test port PORT", "slow2.test:PORT"].map { |place| "user specified timeout for #{place}" } if RUBY_VERSION >= "4"
    asks "resolv_timeout does not wait for the answer", <<~'RUBY', <<~OUT
      p(inside do
        largest_gap do
          [TCPSocket.method(:new), Socket.method(:tcp)].product([0.1, 10]).map.with_index do |(how, seconds), i|
            listening do |port|
              how.call("slow#{i}.test", port, resolv_timeout: seconds).then { |s| s.puts; s.read.lines.last }
            rescue Errno::ETIMEDOUT, IO::TimeoutError => error
              TCPSocket.new("127.0.0.1", port).then { |s| s.puts; s.read }
              error.message.sub(port.to_s, "PORT")
            end
          end
        end
      end)
    RUBY
      #{[late.flat_map { |message| [message, "ok"] }, :flowing].inspect}
    OUT

    asks "an unknown name is asked for once with resolv_timeout", <<~'RUBY', "[true, :flowing]\n", queries: 2
      p(inside do
        largest_gap do
          TCPSocket.new("unknown.invalid", 1, resolv_timeout: 10)
        rescue Socket::ResolutionError => error
          error.message.start_with?("getaddrinfo(3): ") && error.error_code == Socket::EAI_NONAME
        end
      end)
    RUBY
  end

  if RUBY_VERSION >= "4" # before, there is no open_timeout, and getaddrinfo passes its timeout over
    late = Array.new(4) { |i| "IO::TimeoutError: user specified timeout for slow#{i}.test port PORT" }
    late[3] = late[3].sub(" port ", ":")
    late << "IO::TimeoutError: user specified timeout for slow4.test port PORT" << "IO::TimeoutError: user specified timeout for slow5.test port PORT"
    late << "Net::OpenTimeout: Failed to open TCP connection to slow6.test:PORT (user specified timeout for slow6.test port PORT)"
    asks "no timeout waits for the answer", <<~'RUBY', "#{[[late, ["ok"] * 7], :flowing].inspect}\n"
      WAYS = [
        ->(name, port, time) { TCPSocket.new(name, port, open_timeout: time) },
        ->(name, port, time) { TCPSocket.new(name, port, open_timeout: time, fast_fallback: false) },
        ->(name, port, time) { TCPSocket.new(name, port, "127.0.0.1", nil, open_timeout: time) },
        ->(name, port, time) { Socket.tcp(name, port, open_timeout: time) },
        ->(name, port, time) { Socket.tcp(name, port, open_timeout: time, fast_fallback: false) },
        ->(name, port, time) { Addrinfo.getaddrinfo(name, port, nil, :STREAM, timeout: time).first.connect },
        lambda do |name, port, time|
          http = Net::HTTP.new(name, port, nil)
          http.open_timeout = time
          http.start.instance_variable_get(:@socket).io
        end
      ]
      def each_way(seconds)
        strands = WAYS.map.with_index do |way, i|
          go do
            listening do |port|
              way.call("slow#{i}.test", port, seconds).then { |s| s.puts; s.read.lines.last }
            rescue IO::TimeoutError, Net::OpenTimeout, SystemCallError => error
              TCPSocket.new("127.0.0.1", port).then { |s| s.puts; s.read }
              "#{error.class}: #{error.message.gsub(port.to_s, "PORT")}"
            end
          end
        end
        strands.map { |one| finish(one) }
      end
      p(inside { largest_gap { [each_way(0.1), each_way(10)] } })
    RUBY
  end

  asks "names of /etc/hosts ask nobody", <<~'RUBY', "[\"127.0.0.1\"]\n", queries: 0
    p(inside { Addrinfo.getaddrinfo("localhost", 80, :INET, :STREAM).map(&:ip_address) })
  RUBY

  private

  def ask(source, world)
    env = { "NB_WORLD" => world, "NB_BACKEND" => (world unless world == "threads") }
    NameServer.run(PRELUDE + TICK + source, env: env)
  end
end
# rubocop:enable Layout/LineLength
