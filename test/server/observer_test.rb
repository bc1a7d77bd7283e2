# frozen_string_literal: true

require_relative "helper"
require_relative "program"

# `on_request`: what it is told and when, and that nothing in it reaches a request.
class ServerObserverTest < Minitest::Test
  include ServerTest

  FAILURES = [-> { raise "oops" }, -> { raise NotImplementedError, "oops" }, -> { exit },
              -> { raise NoMemoryError, "oops" },
              -> { (deep = -> { deep.call + 1 }).call }].freeze

  # @return [Array<Hash>] as many as were told
  def told(count)
    eventually { @told.size >= count }
    @told
  end

  def observe(app = nil, **options, &block)
    @told = []
    serve(app || block, on_request: ->(request) { @told << request }, **options)
  end

  def test_it_is_told_of_each_answer
    observe do |env|
      sleep 0.05
      [env["REQUEST_METHOD"] == "PUT" ? 201 : 404, TEXT, ["answer"]]
    end
    start = Process.clock_gettime(Process::CLOCK_REALTIME) - 300
    answers = [get("/caf%C3%A9?secret=1"),
               exchange("PUT /b HTTP/1.1\r\n#{HOST}X-Request-Start: #{start}\r\n" \
                        "Content-Length: 0\r\nConnection: close\r\n\r\n")]
    one, two = told(2)
    expected = [["GET", "/caf%C3%A9", 404], ["PUT", "/b", 201]]
    assert_equal expected.zip(answers).map { |request, answer| [*request, answer.bytesize] },
      [one, two].map { |request| request.values_at(:method, :path, :status, :bytes) }
    [one, two].each { |request| assert_operator request[:seconds], :>=, 0.05 }
    assert_operator one[:queue_seconds], :<, 150
    assert_operator two[:queue_seconds], :>=, 300
    assert_equal 6, one.size
  end

  def test_the_client_has_its_answer_before
    gate = Thread::Queue.new
    serve(HELLO, on_request: ->(_) { gate.pop })
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal "hello", read_response(socket).body
    assert_match(/hello/, get_while_that_waits(gate))
  ensure
    gate.close
  end

  # It may wait, as all that runs in the loop.
  def get_while_that_waits(gate)
    eventually { gate.num_waiting == 1 }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    read_response(socket).body
  end

  FAILURES.each_with_index do |failure, number|
    define_method("test_what_it_raises_is_reported_once_and_ends_nothing_#{number}") do
      calls = 0
      out = StringIO.new
      serve(HELLO, access_log: out, on_request: ->(_) { (calls += 1) && failure.call })
      socket = connect
      3.times do
        socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
        assert_equal "hello", read_response(socket).body
      end
      assert_match(/hello/, get)
      eventually { calls == 4 && @server.stats[:requests] == 4 }
      assert_equal 1, @log.string.scan("on_request (reported once)").size
      assert_equal 4, out.string.lines.size
      assert_equal [true, 0], [@server.ready?, @server.stats[:errors]]
    end
  end

  def test_a_broken_access_log_does_not_keep_it_from_being_told
    broken = Object.new
    broken.define_singleton_method(:write) { |*| raise IOError, "closed stream" }
    observe(HELLO, access_log: broken)
    2.times { assert_match(/hello/, get) }
    assert_equal [200, 200], told(2).map { |request| request[:status] }
  end

  def test_of_requests_without_an_answer_of_ours
    observe { |env| env["PATH_INFO"] == "/raise" ? raise("oops") : env["rack.hijack"].call.close }
    get("/raise")
    get("/taken")
    told(2) # the client sees the close before the application has returned
    exchange("GET /bad HTTP/1.1\r\nHost: a\r\nBad\r\n\r\n")
    assert_equal [["/raise", 500], ["/taken", nil], ["/bad", 400]],
      told(3).map { |request| request.values_at(:path, :status) }
  end

  def test_only_what_can_be_called
    error = assert_raises(ArgumentError) { NB::Server.new(HELLO, on_request: :puts) }
    assert_match(/on_request: must respond to call, got: :puts/, error.message)
  end

  def test_without_one_nothing_is_called
    serve(HELLO)
    core = @server.instance_variable_get(:@core)
    refute_predicate core, :log?
    core.define_singleton_method(:log_access) { |*| raise "called" }
    assert_match(/hello/, get)
    assert_empty @log.string
  end
end

# The same as a word of the configuration file, in each worker.
class ServerObserverProgramTest < Minitest::Test
  include ServerProgram

  def test_a_block_of_the_configuration_file
    start("-w", "2", config: <<~RUBY)
      on_request do |request|
        File.write("told", "\#{request[:method]} \#{request[:path]} \#{request[:status]}\\n", mode: "a")
      end
    RUBY
    10.times { |number| get("/#{number}") }
    told = -> { File.exist?("#{@dir}/told") ? File.read("#{@dir}/told").lines : [] }
    eventually { told.call.size == 10 }
    assert_equal Array.new(10) { |number| "GET /#{number} 200\n" }, told.call.sort
    finish
  end
end
