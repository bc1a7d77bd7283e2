# frozen_string_literal: true

require_relative "helper"
require "neverblock"
require "tmpdir"

# Who is served when a server is asked to stop, and what keeps it from ending.
class ServerLeavingTest < Minitest::Test
  include ServerTest

  ASK = "GET / HTTP/1.1\r\n#{HOST}Connection: close\r\n\r\n".freeze
  WAITING = 40

  # The kernel lets clients in while the loop is busy. Then the server is stopped.
  # @return [Array<String>] the first line of each answer, or the error
  def stopped_with_a_full_queue(**options)
    busy = Thread::Queue.new
    gate = Thread::Queue.new
    serve(**options) do |env|
      NB.blocking { busy << true && gate.pop } if env["PATH_INFO"] == "/busy"
      [200, TEXT, ["ok"]]
    end
    first = client.tap { |socket| socket.write(ASK.sub("/", "/busy")) }
    busy.pop
    waiting = Array.new(WAITING) { client.tap { |socket| socket.write(ASK) } }
    @server.stop
    gate << true
    [first, *waiting].map { |socket| answer(socket) }
  end

  # Those that come late, too, have only as long to say something as an ending server grants.
  def test_clients_that_wait_for_fds_do_not_hold_up_the_end
    port, told = IO.pipe
    pid = fork do
      server = NB::Server.new(HELLO, bind: "tcp://127.0.0.1:0", log: nil, connections: 1000,
        idle_timeout: 0.1, header_timeout: nil, drain_timeout: nil)
      Signal.trap(:TERM) { server.stop }
      Process.setrlimit(:NOFILE, Dir.children("/proc/self/fd").size + 12)
      server.run { told.puts(server.port) }
      exit!(0)
    end
    port = Integer(port.gets)
    silent = Array.new(WAITING) { TCPSocket.new("127.0.0.1", port) }
    Process.kill(:TERM, pid)
    assert_predicate Timeout.timeout(60) { Process.wait2(pid).last }, :success?
    assert_equal [nil] * WAITING, silent.map { |socket| socket.read(1) }
    pid = nil
  ensure
    silent&.each(&:close)
    pid && Process.kill(:KILL, pid) && Process.wait(pid)
  end

  # Beside the requests, in a loop of the server's own, which ends with it.
  # As new: with connections that are kept, and not asked to stop.
  def test_a_server_runs_again
    server = NB::Server.new(HELLO, bind: "tcp://127.0.0.1:0", log: nil)
    2.times do
      thread = Thread.new { server.run }
      eventually { server.ready? }
      socket = connect(server)
      2.times do
        socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
        assert_nil read_response(socket).headers["connection"]
      end
      refute server.stats[:draining]
      assert_match(/already running/, assert_raises(RuntimeError) { server.run }.message)
      socket.close
      3.times { server.stop }
      assert thread.join(60)
    end
  end

  def test_a_core_that_does_not_run
    core = NB::Server::Core.new
    assert_raises(RuntimeError) { core.listen(0, false, false, 0) }
    assert_raises(RuntimeError) { core.join(1) }
    reader, writer = IO.pipe
    reader.autoclose = false
    refute core.adopt(reader.fileno, false, "127.0.0.1")
    assert_raises(Errno::EPIPE) { writer.write("closed") }
    assert core.leave([Struct.new(:backlog).new(1)])
  end

  def test_tasks_are_told_of_the_stop
    told = Thread::Queue.new
    stopping = Thread.new do
      stopped { |begun| told << [NB.until_stop { begun.close && sleep }, NB.stopping?] }
      NB.stopping?
    end.value
    assert_equal [false, [nil, true]], [stopping, told.pop]
  end

  # In a loop that goes on without it, the stop is over when the server has ended.
  def test_tasks_of_a_loop_that_goes_on_are_told_too
    told = Thread::Queue.new
    after = Thread.new do
      NB.run do
        stopped { |begun| told << NB.until_stop { begun.close && sleep } }
        [NB.stopping?, told.pop, NB.until_stop { :on }]
      end
    end.value
    assert_equal [false, nil, :on], after
  end

  # Runs a server that is stopped at once, beside a task that has closed what it gets.
  def stopped
    begun = Thread::Queue.new
    server = NB::Server.new(HELLO, bind: "tcp://127.0.0.1:0", log: nil)
    server.run do
      NB.async { yield begun }
      begun.pop
      server.stop
    end
  end

  # It runs, although the server has no connection for it any more.
  def test_who_has_taken_the_socket_may_finish
    gate, ended = Array.new(2) { Thread::Queue.new }
    serve do |env|
      io = env["rack.hijack"].call
      gate.pop
      io.write("all of it")
      io.close
    rescue Exception => error # rubocop:disable Lint/RescueException -- told to the test
      ended << error
      raise
    end
    socket = client.tap { |one| one.write(ASK) }
    eventually { @server.stats.values_at(:running, :connections) == [1, 0] }
    @server.stop
    eventually { @server.stats[:draining] }
    gate << true
    assert_equal ["all of it", true], [Timeout.timeout(60) { socket.read }, ended.empty?]
  end

  def client
    return connect unless @path

    UNIXSocket.new(@path).tap { |socket| (@sockets ||= []) << socket }
  end

  def answer(socket)
    Timeout.timeout(60) { socket.read.lines.first.to_s.chomp }
  rescue SystemCallError => error
    error.class.name
  end

  def test_who_is_in_the_accept_queue_is_answered
    assert_equal({"HTTP/1.1 200 OK" => WAITING + 1}, stopped_with_a_full_queue.tally)
  end

  def test_at_a_unix_socket_too
    Dir.mktmpdir do |folder|
      @path = "#{folder}/socket"
      answers = stopped_with_a_full_queue(bind: "unix://#{@path}")
      assert @servers.last.last.join(60) # it deletes the socket's file, and so would mktmpdir
      assert_equal({"HTTP/1.1 200 OK" => WAITING + 1}, answers.tally)
    end
  end

  def test_beyond_the_limit_of_connections_too
    assert_equal({"HTTP/1.1 200 OK" => WAITING + 1},
      stopped_with_a_full_queue(connections: 2).tally)
  end

  # A handshake that begins when nobody is let in any more is lost, as a SYN can be; the client's
  # kernel tries again, and finds nobody.
  def test_nobody_is_let_in_once_it_refuses
    binding = NB::Server::Binding.parse("tcp://127.0.0.1:0").open
    early = TCPSocket.new("127.0.0.1", binding.port)
    binding.refuse
    late = Thread.new do
      TCPSocket.new("127.0.0.1", binding.port)
    rescue SystemCallError => error
      error
    end
    assert_kind_of Socket, binding.io.accept.first
    assert_equal :wait_readable, binding.io.accept_nonblock(exception: false)
    Thread.pass until late.stop?
    binding.close
    assert_kind_of Errno::ECONNREFUSED, late.value
  ensure
    early&.close
    binding&.close
  end

  # Seconds that the server lives on after the block has stopped it.
  def lives_on(server)
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield server
    @servers.pop[1].join(20) || flunk("the server does not end")
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
  end

  # @return [Array] NB::Server of an application that leaves a fiber behind, its end in a queue
  def with_a_fiber_in_the_background(**options)
    ended = Thread::Queue.new
    serve(**options) do |_env|
      NB.async do
        sleep 3600
      ensure
        ended << $!.class
      end
      [200, TEXT, ["started"]]
    end
    assert_includes get, "started"
    [@server, ended]
  end

  def test_what_runs_in_the_background_gets_drain_timeout
    server, ended = with_a_fiber_in_the_background(drain_timeout: 0.5)
    assert_operator lives_on(server, &:stop), :>=, 0.5
    assert_equal NB::Cancelled, ended.pop
  end

  def test_a_second_stop_ends_what_runs_in_the_background
    server, ended = with_a_fiber_in_the_background(drain_timeout: 3600)
    lives_on(server) { server.stop.stop }
    assert_equal NB::Cancelled, ended.pop
  end

  # The cancel strikes while the stop begins.
  def test_a_server_that_is_cancelled_at_its_stop_leaves_no_fiber
    started = Thread::Queue.new
    NB.run do
      server = NB::Server.new(->(_) { [200, {}, []] }, bind: "tcp://127.0.0.1:0", log: nil)
      task = NB.async { server.run { started << true } }
      started.pop
      server.stop
      task.cancel
      assert_raises(NB::TaskCancelledError) { task.value }
    end
  end
end
