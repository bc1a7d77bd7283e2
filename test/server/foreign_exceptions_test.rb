# frozen_string_literal: true

require_relative "program"

# Exceptions that a thread of a library raises in the thread that has called it: in a server that is
# the thread of all requests.
class ServerForeignExceptionsTest < Minitest::Test
  include ServerProgram

  APPLICATION = <<~'RUBY'
    gate = Thread::Queue.new
    reports = -> { File.read("log").scan("RuntimeError: broken").size }
    reported = ->(count) { sleep 0.01 until reports.call == count; count }
    run lambda { |env|
      caller = Thread.current
      asleep = -> { Thread.pass until caller.stop? }
      case env["PATH_INFO"]
      when "/plain"
        Thread.new { asleep.call; caller.raise("the connection broke") }
      when "/rescued" # as mqtt does: the exception has a backtrace
        Thread.new { Integer("no number") rescue (asleep.call; caller.raise($!)) }
      when "/often"
        raising = Thread.new do
          asleep.call
          100.times { caller.raise("broken") && sleep(0.0002) }
        end
        raising.join rescue nil
      when "/abort"
        Thread.new { asleep.call; raise "ended by this" }.abort_on_exception = true
      when "/drain" # raises twice once the listeners are closed, each time when all fibers wait
        listeners = NB::Server.of(env).instance_variable_get(:@bindings)
        Thread.new do
          Thread.pass until listeners.none?(&:io)
          2.times { |done| asleep.call; caller.raise("broken #{done}"); reported.call(done + 1) }
          gate.push(true)
        end
        warn "waits"
        gate.pop
        next [200, {"content-type" => "text/plain"}, [reported.call(2).to_s]]
      when "/wait" then gate.pop
      when "/go" then gate.push(true)
      end
      [200, {"content-type" => "text/plain"}, [Process.pid.to_s]]
    }
  RUBY
  REPORT = "another thread raised this in the thread of all requests (Thread#raise): "
  FLAGS = { "one process" => [], "a worker" => %w[-w 1] }.freeze

  FLAGS.each do |name, flags|
    define_method(:"test_they_end_no_request_of_#{name.tr(" ", "_")}") do
      serve(*flags)
      pid = get
      waiting = Thread.new { get("/wait") }
      reports = %w[/plain /rescued /plain].each.with_index(1).map do |path, count|
        assert_equal pid, get(path)
        eventually { log.split(REPORT)[count] }
      end
      assert_match(/\ARuntimeError: the connection broke$/, reports[0])
      assert_match(/\AArgumentError: invalid value for Integer\(\): "no number"$/, reports[1])
      assert_equal [pid, pid], [get("/go"), waiting.value]
      assert_predicate finish, :success?
    end
  end

  # The next one strikes while the one before is reported.
  def test_several_at_once_end_no_request
    serve
    pid = get
    5.times { get("/often") }
    assert_equal pid, get
    assert_operator log.split(REPORT).size, :>, 5
    assert_predicate finish, :success?
  end

  FLAGS.each do |name, flags|
    define_method(:"test_they_end_no_request_while_#{name.tr(" ", "_")}_drains") do
      serve(*flags)
      get
      waiting = Thread.new { get("/drain") }
      eventually { log.include?("waits") }
      Process.kill(:TERM, @pid)
      assert_equal 2, waiting.value, log
      assert_predicate ended, :success?
      assert_equal 3, log.split("#{REPORT}RuntimeError: broken").size
    end
  end

  # As it does any program.
  def test_a_thread_that_aborts_ends_the_server
    serve
    get("/abort")
    refute_predicate ended, :success?
    assert_includes log, "ended by this"
  end

  def serve(*flags)
    File.write("#{@dir}/config.ru", APPLICATION)
    start(*flags)
  end
end
