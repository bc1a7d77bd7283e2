# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"
require_relative "../support/subprocess"
require "neverblock"

# What an application keeps of a request beyond its end finds the request ended, and what it hands
# to other fibers and threads works there: no byte of it comes into another response.
class ServerOutlivesTest < Minitest::Test
  include ServerTest

  # As Thin's deferrable body: keeps the block of its each.
  class Kept
    attr_reader :block

    def initialize(close: nil)
      @close = close
    end

    def each(&block)
      @block = block
      yield "a"
    end

    def close = @close&.call(@block)
  end

  # What is the same in every env cannot be changed for the next one.
  def test_what_requests_share_is_frozen
    first = nil
    serve { |env| (first ||= env.dup) && [200, {}, [first.select { |key, value| env[key].equal?(value) && !value.frozen? }.keys.inspect]] }
    2.times { get }
    assert_match(/\r\n\r\n\["rack.errors"\]\z/, get)
  end

  # The fiber of the first request runs the second, at the same place of its stack.
  def test_the_block_of_an_each_writes_nothing_once_its_response_has_ended
    kept = Kept.new
    gate = Thread::Queue.new
    slow = Enumerator.new { |out| (out << "b1") && gate.pop && (out << "b2") }
    serve(fibers: 1) { |env| [200, {}, env["PATH_INFO"] == "/a" ? kept : slow] }
    assert_match(/\r\n1\r\na\r\n0\r\n\r\n\z/, get("/a"))
    socket = connect
    socket.write("GET /b HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:running] == 1 }
    assert_raises(IOError) { kept.block.call("SECRET OF A") }
    gate << true
    assert_equal "b1b2", read_response(socket).body
    assert_match(/has finished/, assert_raises(IOError) { kept.block.call("after everything") }.message)
  end

  # The request goes on after the end of its response, and the next answer is not begun.
  def test_nothing_is_written_after_the_end_of_the_response
    errors = Thread::Queue.new
    late = ->(write) { errors << assert_raises(IOError) { write.call("late") }.message }
    stream = nil
    serve(early_hints: true) do |env|
      case env["PATH_INFO"]
      when "/close" then [200, {}, Kept.new(close: late)]
      when "/stream"
        env["rack.after_reply"] << -> { late.call(->(text) { env["neverblock.exchange"].write(text) }) }
        env["rack.response_finished"] << ->(*) { env["rack.early_hints"].call("late" => "hint") }
        [200, {}, ->(out) { (stream = out).write("s") && out.close }]
      when "/before" then late.call(env["neverblock.exchange"].method(:write)) && [200, {}, ["x"]]
      else [200, {}, ["next"]]
      end
    end
    socket = connect
    %w[/close /stream /before /].each { |path| socket.write("GET #{path} HTTP/1.1\r\n#{HOST}\r\n") }
    assert_equal %w[a s x next], Array.new(4) { read_response(socket).body }
    assert_equal ["the response has ended: nothing more can be written to it"], Array.new(3) { errors.pop }.uniq
    assert_raises(IOError) { stream.write("late") }
    assert_equal "", @log.string
  end

  def test_hints_that_are_slow_to_make_stay_out_of_the_response
    gate = Thread::Queue.new
    value = Object.new
    value.define_singleton_method(:to_s) { gate.pop }
    serve(early_hints: true) do |env|
      hints = env["rack.early_hints"]
      Fiber.schedule { hints.call("connection" => "close", "link" => value) rescue gate << $!.class }
      Fiber.schedule { gate << "</a>" } if env["PATH_INFO"] == "/during"
      [200, {}, env["PATH_INFO"] == "/during" ? Enumerator.new { |out| sleep(0.001) && (out << "b") } : ["b"]]
    end
    socket = connect
    %w[/during /after].each do |path|
      socket.write("GET #{path} HTTP/1.1\r\n#{HOST}\r\n")
      response = read_response(socket)
      assert_equal ["b", nil, nil], [response.body, *response.headers.values_at("link", "connection")]
    end
    gate << "</a>"
    eventually { gate.num_waiting.zero? }
    assert_equal IOError, Timeout.timeout(60) { gate.pop }
  end

  # As under Puma: what is only a hint ends no request that has more to do.
  %w[fiber thread].each do |where|
    define_method("test_hints_for_a_client_that_has_gone_are_lost_in_a_#{where}") do
      gate, told = Array.new(2) { Thread::Queue.new }
      link = Object.new.tap { |slow| slow.define_singleton_method(:to_s) { sleep(0.001) && "</a>" } }
      hint = lambda do |env|
        env["rack.early_hints"].call("link" => link) until @server.stats[:connections].zero?
        env["rack.early_hints"].call("link" => link)
      end
      serve(early_hints: true) do |env|
        gate.pop
        where == "thread" ? Thread.new { hint.call(env) }.join : hint.call(env)
        told << "all done"
        [200, {}, []]
      rescue SystemCallError => error
        told << error
      end
      socket = connect
      socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      eventually { @server.stats[:running] == 1 }
      Reset.close(socket)
      gate << true
      assert_equal "all done", Timeout.timeout(60) { told.pop }
      eventually { @server.stats[:running].zero? }
      assert_equal "", @log.string
    end
  end

  def post(fields, *parts)
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}#{fields}\r\n")
    assert_equal "HTTP/1.1 100 Continue\r\n\r\n", Timeout.timeout(60) { socket.readpartial(25) } if fields.include?("Expect")
    parts.each { |part| socket.write(part) }
    read_response(socket)
  end

  QUIET = ->(strand) { (strand.report_on_exception = false) || strand }
  READERS = {"fibers" => ->(read) { Array.new(2) { QUIET.call(NB.async(&read)) }.map(&:value) },
             "threads" => ->(read) { Array.new(2) { QUIET.call(Thread.new(&read)) }.map(&:value) }}.freeze

  # A StringIO for both, which have it one after the other.
  READERS.each do |name, both|
    define_method("test_two_#{name}_read_a_body_that_waits_for_100_continue") do
      serve { |env| [200, {}, [both.call(-> { env["rack.input"].read }).sort.join("|")]] }
      assert_equal "|abc", post("Expect: 100-continue\r\nContent-Length: 3\r\n", "a", "bc").body
      wrong = post("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", "no size\r\n")
      assert_equal 400, wrong.status
    end

    define_method("test_two_#{name}_read_a_streamed_body") do
      serve(body_streaming: true, body_memory_bytes: 0) do |env|
        parts = Thread::Queue.new
        both.call(-> { env["rack.input"].each_part { |part| parts << part } })
        [200, {}, [Array.new(parts.size) { parts.pop }.sum("", &:itself).chars.sort.join]]
      end
      assert_equal "abcdef", post("Expect: 100-continue\r\nContent-Length: 6\r\n", "a", "bc", "def").body
    end
  end

  def test_a_body_whose_client_is_gone_before_it_is_told_to_go_on
    errors = Thread::Queue.new
    serve do |env|
      sleep 0.001 until env["neverblock.exchange"].client_gone?
      env["rack.input"].read
    rescue SystemCallError => error
      errors << error
      [200, {}, []]
    end
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    eventually { @server.stats[:running] == 1 }
    Reset.close(socket)
    assert_kind_of Errno::EPIPE, Timeout.timeout(60) { errors.pop }
  end

  # @return [Boolean] whether the server answers others meanwhile, and only in its own thread
  def answers_others? = get("/other").end_with?("in the loop's thread")

  # In parts of a megabyte: under ASan a string that grows is copied each time.
  def whole(socket) = Enumerator.produce { socket.read(1 << 20) }.take_while(&:itself).join

  MUCH = "z" * 12_000_000 # more than the kernel takes for a client that does not read

  OTHER = {true => "in the loop's thread", false => "elsewhere"}.freeze

  THREADS = {
    "a stream" => ->(env) { [200, {}, ->(stream) { Thread.new { stream << env["rack.input"].read << MUCH << "end" and stream.close } }] },
    "a stream that is waited for" => ->(_env) { [200, {}, ->(stream) { Thread.new { stream.write(stream.read, MUCH, "end") && stream.close }.join }] },
    "a block of an each" => ->(env) { [200, {}, Class.new { define_method(:each) { |&out| Thread.new { [env["rack.input"].read, MUCH, "end"].each(&out) }.join } }.new] },
    "a socket" => ->(env) { Thread.new { [env["rack.input"].read, env["rack.hijack"].call].then { |sent, io| io.write(sent, MUCH, "end") && io.close } }.then { sleep(0.001) until env["rack.hijack_io"] } }
  }.freeze

  THREADS.each do |name, app|
    define_method("test_#{name.tr(" ", "_")}_in_another_thread") do
      serve { |env| env["PATH_INFO"] == "/other" ? [200, {}, [OTHER[Thread.current == @servers.last[1]]]] : app.call(env) }
      socket = connect
      socket.write("POST / HTTP/1.1\r\n#{HOST}Connection: close\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\na")
      socket.write("bc")
      assert socket.wait_readable(60)
      20.times { assert_predicate self, :answers_others? }
      answer = Timeout.timeout(60) { whole(socket) }
      assert_equal [MUCH.size, true, 1], [answer.count("z"), answer.include?("abc"), answer.scan("end").size]
      assert_equal "", @log.string
    end
  end

  def test_a_thread_whose_client_is_gone_or_server_has_stopped_is_told
    errors = Thread::Queue.new
    body = lambda do |stream|
      Thread.new do
        loop { stream.write("x" * 100_000) }
      rescue SystemCallError, IOError => error
        errors << error
        stream.close
      end
    end
    serve(drain_timeout: 0.01) { |_env| [200, {}, body] }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    socket.readpartial(1000)
    socket.close
    assert_kind_of SystemCallError, Timeout.timeout(60) { errors.pop }
    before = @server.stats[:response_bytes]
    connect.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    eventually { @server.stats[:response_bytes] > before + 100_000 }
    @server.stop
    assert Timeout.timeout(60) { errors.pop }
  end

  # As IO#write, which also sends what the String was.
  def test_a_string_changes_while_it_is_written
    told = Thread::Queue.new
    serve do
      text = "x" * 3_000_000 # more than one turn of a connection
      body = lambda do |stream|
        Fiber.schedule { (told << stream.write(text)) && stream.close }
        text.replace("late")
      end
      [200, {}, body]
    end
    assert_equal 3_000_000, get.count("x")
    assert_equal 3_000_000, Timeout.timeout(60) { told.pop }
  end

  # The fiber of the request that has ended runs the next one, at the same place of its stack, and
  # that one fails: no reason to close a socket that is not its own.
  TAKEN_BESIDE = <<~'RUBY'
    require "neverblock/server"
    require "stringio"
    GATE = Thread::Queue.new
    TAKEN = Thread::Queue.new
    slow = Module.new { def for_fd(*) = super.tap { GATE.pop if TAKEN.num_waiting == 1 } }
    TCPSocket.singleton_class.prepend(slow)
    app = lambda do |env|
      if env["PATH_INFO"] == "/take"
        Fiber.schedule { TAKEN << env["rack.hijack"].call }
        next [200, {}, []]
      end
      GATE << true
      Fiber.scheduler.yield until TAKEN.num_waiting.zero?
      raise "oops"
    end
    NB.run do
      server = NB::Server.new(app, bind: "tcp://127.0.0.1:0", fibers: 1, log: StringIO.new)
      Fiber.schedule { server.run }
      Fiber.scheduler.yield until server.ready?
      ask = lambda do |path|
        TCPSocket.new("127.0.0.1", server.port).tap do |socket|
          socket.write("GET #{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        end
      end
      taker = NB.async { TAKEN.pop }
      taken = ask.call("/take")
      Fiber.scheduler.yield until GATE.num_waiting == 1
      print ask.call("/fail").read[9, 3]
      taker.value.tap { |io| io.write(" mine") }.close
      print taken.read
      server.stop
    end
  RUBY

  def test_a_socket_taken_beside_the_request_is_not_closed_with_the_next
    result = Subprocess.ruby(TAKEN_BESIDE, limit: 60)
    assert_equal "500 mine", result.out, result.err[0, 3000]
  end
end
# rubocop:enable Layout/LineLength
