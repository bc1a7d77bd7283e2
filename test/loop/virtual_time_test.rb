# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "open3"
require "socket"
require_relative "../support/leaks"
require_relative "../support/program"

# NB.run(clock: :virtual). What waits for a timer waits for hours here: a test that comes back at
# all has not waited. The loop runs on the main thread, since other threads would be able to write.
class VirtualTimeTest < Minitest::Test
  HOUR = 3600
  # Seconds that real work may take on a busy machine.
  SHORT = 60

  # Says at which port, with which TCP could have a server as well.
  ANSWERS_LATE = <<~'RUBY'
    tcp = TCPServer.new("127.0.0.1", 0)
    udp = UDPSocket.new
    udp.bind("127.0.0.1", tcp.local_address.ip_port)
    tcp.close
    puts udp.local_address.ip_port
    $stdout.flush
    _, asker = udp.recvfrom(9)
    sleep(0.05)
    udp.send("late", 0, asker[3], asker[1])
  RUBY

  # One test for each backend; the block runs in a loop with a virtual clock.
  def self.virtual(name, ruby: nil, before: nil, &block)
    why = "of Ruby >= #{ruby}" if ruby && RUBY_VERSION < ruby
    why = "of Ruby < #{before}" if before && RUBY_VERSION >= before
    NB::Native.backends.each do |backend|
      define_method("test_#{name}_#{backend}") do
        skip why if why
        NB.run(backend: backend, clock: :virtual) do
          @start = clock
          instance_exec(&block)
        end
      end
    end
  end

  # The thread has the lock, and pushes to the queue when it has left it. It computes for longer
  # than Ruby's 0.1 s until the next thread's turn.
  def self.beside_a_thread_that_computes
    lock = Thread::Mutex.new
    queue = Thread::Queue.new
    thread = Thread.new do
      lock.synchronize { compute(0.25) }
      queue << true
    end
    Thread.pass until lock.locked? || !queue.empty?
    yield lock, queue
  ensure
    thread.join
  end

  def self.compute(seconds)
    limit = cpu + seconds
    nil until cpu > limit
  end

  def self.cpu = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)

  def setup = @before = Leaks.snapshot

  def teardown
    @ios&.each(&:close)
    assert_empty Leaks.since(@before)
  end

  virtual "sleeps_end_in_their_order" do
    seen = []
    NB.gather(*[3, 1, 2].map { |hours| -> { sleep(hours * HOUR) && seen << hours } })
    assert_equal [1, 2, 3], seen
    assert_passed 3 * HOUR
  end

  virtual "equal_sleeps_end_in_the_order_in_which_they_began" do
    seen = []
    NB.gather(*Array.new(100) { |number| -> { sleep(HOUR) && seen << number } })
    assert_equal (0...100).to_a, seen
    assert_passed HOUR
  end

  virtual "timeouts_strike" do
    assert_raises(Timeout::Error) { Timeout.timeout(HOUR) { sleep } }
    assert_passed HOUR
    assert_raises(Timeout::Error) { NB.timeout(HOUR) { Thread::Queue.new.pop } }
    assert_passed 2 * HOUR
    assert_equal :done, NB.timeout(2 * HOUR) { sleep(HOUR) && :done }
    assert_passed 3 * HOUR
  end

  virtual "a_deadline_comes_nearer" do
    NB.timeout(2 * HOUR) do
      sleep(HOUR)
      assert_in_delta HOUR, NB.deadline, 0.001
    end
  end

  virtual "tasks_are_waited_for_so_long" do
    task = NB.async { sleep(3 * HOUR) && :value }
    assert_nil task.wait(HOUR)
    assert_raises(Timeout::Error) { task.value(HOUR) }
    assert_passed 2 * HOUR
    assert_equal :value, task.value
    assert_passed 3 * HOUR
  end

  virtual "outcomes_within_a_time" do
    outcomes = NB.settle(-> { sleep(HOUR) && 1 }, -> { sleep(3 * HOUR) }, timeout: 2 * HOUR)
    assert_equal [1, nil], outcomes.map(&:value)
    assert_passed 2 * HOUR
  end

  virtual "queues_have_timeouts", ruby: "3.2" do
    queue = Thread::Queue.new
    assert_nil queue.pop(timeout: HOUR)
    assert_passed HOUR
    NB.async { sleep(HOUR) && queue << :late }
    assert_equal :late, queue.shift(timeout: 2 * HOUR)
    assert_passed 2 * HOUR
    sized = Thread::SizedQueue.new(1)
    assert_same sized, sized.push(1, timeout: HOUR)
    assert_nil sized.push(2, timeout: HOUR)
    assert_equal [1, nil], Array.new(2) { sized.pop(timeout: HOUR) }
    assert_passed 4 * HOUR
  end

  virtual "what_a_queue_refuses_it_refuses", ruby: "3.2" do
    queue = Thread::Queue.new
    assert_nil queue.pop(timeout: 0)
    assert_raises(ThreadError) { queue.pop(true) }
    assert_raises(ArgumentError) { queue.pop(true, timeout: 1) }
    assert_raises(TypeError) { queue.pop(timeout: "1") }
    queue.close
    assert_nil queue.pop(timeout: HOUR)
    assert_passed 0
  end

  virtual "a_cancelled_wait_at_a_queue_is_no_timeout", ruby: "3.2" do
    queue = Thread::Queue.new
    task = NB.async { queue.pop(timeout: HOUR) && flunk }
    sleep(1)
    assert_predicate task.cancel.wait, :cancelled?
    queue << :kept
    assert_equal :kept, queue.pop(timeout: HOUR)
    assert_passed 1
  end

  virtual "locks_and_conditions" do
    mutex = Thread::Mutex.new
    condition = Thread::ConditionVariable.new
    mutex.synchronize do
      mutex.sleep(HOUR)
      assert_passed HOUR
      condition.wait(mutex, HOUR)
      assert_passed 2 * HOUR
      NB.async { sleep(HOUR) && mutex.synchronize { condition.signal } }
      assert condition.wait(mutex, 2 * HOUR)
      assert_passed 3 * HOUR
    end
  end

  virtual "io_that_nobody_writes_to" do
    reader, = keep(*IO.pipe)
    assert_nil reader.wait_readable(HOUR)
    assert_passed HOUR
    assert_nil IO.select([reader], nil, nil, HOUR)
    assert_passed 2 * HOUR
    server = keep(TCPServer.new("127.0.0.1", 0)).first # which never accepts
    client = keep(TCPSocket.new("127.0.0.1", server.local_address.ip_port)).first
    assert_nil client.wait_readable(HOUR)
    assert_passed 3 * HOUR
  end

  virtual "io_with_a_timeout_of_its_own", ruby: "3.2" do
    reader, = keep(*IO.pipe)
    reader.timeout = HOUR
    assert_raises(IO::TimeoutError) { reader.read(1) }
    assert_passed HOUR
  end

  { pipe: -> { IO.pipe }, pair: -> { UNIXSocket.pair },
    tcp: lambda {
      server = TCPServer.new("127.0.0.1", 0)
      client = TCPSocket.new("127.0.0.1", server.local_address.ip_port)
      [client, server.accept].tap { server.close }
    } }.each do |kind, open|
    virtual "what_another_fiber_writes_comes_before_the_timeout_#{kind}" do
      reader, writer = keep(*open.call)
      NB.async do
        20.times { sleep(HOUR) && writer << "x" }
        writer.close
      end
      got = Array.new(20) { reader.wait_readable(HOUR + 1) && reader.readpartial(9) }
      assert_equal ["x"] * 20, got
      assert_passed 20 * HOUR
    end
  end

  Socket.ip_address_list.filter_map { |ip| ip.ip_address if ip.ipv4_loopback? || ip.ipv6_loopback? }
    .each do |address|
      virtual "a_server_and_its_clients_at_#{address}" do
        server = keep(TCPServer.new(address, 0)).first
        NB.async(background: true) { loop { serve(server.accept) } }
        answers = NB.map([2 * HOUR, 4 * HOUR], concurrency: 2) do |seconds|
          socket = keep(TCPSocket.new(address, server.local_address.ip_port)).first
          socket.puts(seconds)
          socket.wait_readable(3 * HOUR) && socket.gets
        end
        assert_equal ["done\n", nil], answers
        assert_passed 3 * HOUR
      end
    end

  # Bound to an address of this machine, as a listening socket is; the answer goes to who asked.
  { udp: -> { Addrinfo.udp("127.0.0.1", 0) },
    unix: -> { Addrinfo.unix("\0nb#{rand}", :DGRAM) } }.each do |kind, address|
    virtual "a_server_of_datagrams_and_its_clients_#{kind}" do
      server = keep(address.call.bind).first
      NB.async(background: true) { loop { answer(server) } }
      answers = NB.map([2 * HOUR, 4 * HOUR], concurrency: 2) do |seconds|
        socket = keep(address.call.bind).first
        socket.connect(server.local_address)
        socket.send(seconds.to_s, 0)
        socket.wait_readable(3 * HOUR) && socket.recv(9)
      end
      assert_equal ["done", nil], answers
      assert_passed 3 * HOUR
    end
  end

  virtual "periodic_runs" do
    times = []
    NB.every(HOUR) { times.push(((clock - @start) / HOUR).round(3)).size == 5 && break }.wait
    assert_equal [1, 2, 3, 4, 5], times
  end

  virtual "limits_per_time" do
    limiter = NB::Limiter.new(2, per: HOUR)
    times = Array.new(5) { limiter.with { ((clock - @start) / HOUR).floor } }
    assert_equal [0, 0, 1, 1, 2], times
    late = -> { limiter.with(timeout: 1) { flunk } }
    limiter.with { nil }
    assert_raises(NB::LimiterTimeoutError, &late)
  end

  # What a virtual clock has noted lies far ahead.
  def test_a_limiter_is_used_by_one_clock_after_another
    limiter = NB::Limiter.new(1, per: 0.01)
    NB.run(clock: :virtual) do
      sleep(HOUR)
      limiter.with { nil }
    end
    NB.run { assert_equal 1, limiter.with(timeout: 5) { 1 } }
  end

  virtual "pauses_before_the_next_try" do
    tries = []
    NB.retry(times: 4, wait: HOUR, max_wait: 2 * HOUR) do |try|
      tries << (clock - @start)
      raise IOError if try < 4
    end
    pauses = tries.each_cons(2).map { |one, next_one| (next_one - one) / HOUR }
    pauses.zip([1, 2, 2]) { |pause, most| assert_includes (most * 0.499)..(most * 1.001), pause }
  end

  virtual "pools_have_timeouts" do
    pool = NB::ConnectionPool.new(size: 1, timeout: HOUR) { Object.new }
    NB.async { pool.with { sleep(2 * HOUR) } }
    assert_raises(NB::PoolTimeoutError) { pool.with { flunk } }
    assert_passed HOUR
    pool.with { nil }
    assert_raises(NB::PoolTimeoutError) { pool.with { NB.async { pool.with { flunk } }.wait } }
    assert_passed 3 * HOUR
  end

  virtual "shields_have_bounds" do
    task = NB.async { NB.shield(HOUR) { sleep(3 * HOUR) } }
    assert_predicate task.cancel.wait, :cancelled?
    assert_passed HOUR
  end

  virtual "computing_takes_no_time" do
    Timeout.timeout(0.01) do
      self.class.compute(0.1)
      sleep(0.009)
    end
    assert_passed 0.009
  end

  # Each waits for something that comes in its own time, with a timeout that a jump would reach.
  {
    a_child: -> { Process.wait(spawn("sleep 0.05")) },
    any_child: -> { spawn("sleep 0.05") && Process.waitall },
    what_a_child_writes: -> { IO.popen("sleep 0.05; echo x", &:read) },
    what_a_child_shares: lambda {
      ours, theirs = UNIXSocket.pair
      pid = fork { sleep(0.05) && theirs.write("x") && exit!(0) }
      theirs.close
      [ours.read(1), ours.close, Process.wait(pid)]
    },
    offloaded_work: -> { NB.offload { sleep(0.05) } },
    another_process: -> { NB.in_process { sleep(0.05) && true } },
    a_thread: -> { Thread.new { sleep(0.05) && true }.value },
    a_lock_of_a_thread: -> { beside_a_thread_that_computes { |lock| lock.synchronize { true } } },
    a_queue_of_a_thread: -> { beside_a_thread_that_computes { |_, queue| queue.pop } },
    a_name: -> { Addrinfo.getaddrinfo("localhost", 80) },
    a_thread_that_writes: lambda {
      reader, writer = IO.pipe
      thread = Thread.new { sleep(0.05) && writer.close }
      [reader.read, reader.close, thread.join]
    }
  }.each do |name, wait|
    virtual "time_is_real_for_#{name}" do
      ticks = 0
      NB.every(HOUR) { ticks += 1 }
      assert Timeout.timeout(HOUR) { wait.call }
      assert_equal 0, ticks
      assert_operator clock - @start, :<, SHORT
    end
  end

  # Connected or not; and also where a port of TCP has the same number.
  %i[connected unconnected beside_tcp].each do |how|
    virtual "time_is_real_for_another_program_by_udp_#{how}" do
      IO.popen([*Program::RUBY, "-rsocket", "-e", ANSWERS_LATE], "r+") do |program|
        port = Integer(program.gets)
        keep(TCPServer.new("127.0.0.1", port)) if how == :beside_tcp
        socket = keep(UDPSocket.new).first
        socket.connect("127.0.0.1", port) unless how == :unconnected
        socket.send("x", 0, *(["127.0.0.1", port] if how == :unconnected))
        assert_equal "late", Timeout.timeout(HOUR) { socket.recv(9) }
      end
      assert_operator clock - @start, :<, SHORT
    end
  end

  def test_a_thread_for_which_the_clock_goes_as_the_real_one_is_named
    patience = NB::VirtualTime::Real.patience
    NB::VirtualTime::Real.patience = 0.1
    server = keep(TCPServer.new("127.0.0.1", 0)).first
    thread = Thread.new { server.accept }
    reader, = keep(*IO.pipe)
    _, said = capture_io do
      NB.run(clock: :virtual) { 2.times { assert_nil reader.wait_readable(0.3) } }
    end
    assert_match(/\ANB.run\(clock: :virtual\): for 0.1 s .*virtual_time_test.rb:\d+/, said)
    assert_equal 1, said.lines.size
  ensure
    thread.kill.join
    NB::VirtualTime::Real.patience = patience
  end

  def test_what_is_too_late_from_elsewhere_takes_its_time
    start = clock
    NB.run(clock: :virtual) do
      IO.popen("sleep 600") do |io|
        assert_raises(Timeout::Error) { Timeout.timeout(0.1) { io.read } }
        Process.kill(:KILL, io.pid)
      end
    end
    assert_operator clock - start, :>=, 0.1
  end

  virtual "the_clock_in_all_units" do
    sleep(HOUR)
    units = %i[float_second float_millisecond float_microsecond second millisecond microsecond
               nanosecond]
    values = units.map { |unit| Process.clock_gettime(Process::CLOCK_MONOTONIC, unit) }
    assert_equal [Float] * 3 + [Integer] * 4, values.map(&:class)
    per_second = [1, 1e3, 1e6, 1, 1e3, 1e6, 1e9]
    values.zip(per_second) { |value, by| assert_in_delta clock, value / by, 1.001 }
    assert_raises(ArgumentError) { Process.clock_gettime(Process::CLOCK_MONOTONIC, :fortnight) }
    refute_equal 0, Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
  end

  virtual "elsewhere_the_clock_is_real" do
    sleep(HOUR)
    real = Thread.new { clock }.value
    assert_in_delta HOUR, clock - real, SHORT
    assert_operator Time.now.to_f - Time.at(0).to_f, :>, 0
    assert_operator NB.blocking { clock } - real, :<, SHORT
  end

  def test_the_next_loop_is_real
    NB.run(clock: :virtual) { sleep(HOUR) }
    start = clock
    NB.run { sleep(0.05) }
    assert_includes 0.05..SHORT, clock - start
  end

  virtual "inside_of_one_it_is_the_same" do
    NB.run(clock: :virtual) { sleep(HOUR) }
    NB.run { sleep(HOUR) }
    assert_passed 2 * HOUR
  end

  def test_inside_of_a_real_one_it_is_refused
    error = assert_raises(ArgumentError) { NB.run { NB.run(clock: :virtual) { flunk } } }
    assert_match(/clock: :virtual is for the outermost NB.run/, error.message)
  end

  def test_there_is_no_other_clock
    [nil, :nonsense, "real time", 7].each do |clock|
      error = assert_raises(ArgumentError) { NB.run(clock: clock) { flunk } }
      assert_equal "clock: must be :real or :virtual, got: #{clock.inspect}", error.message
    end
  end

  virtual "a_deadlock_is_one" do
    task = NB.async { NB.run { Thread::Queue.new.pop } }
    assert_raises(Timeout::Error) { task.value(HOUR) }
    task.cancel
  end

  def test_a_deadlock_is_found
    out = output_of <<~'RUBY'
      NB.run(clock: :virtual) { sleep(3600) && Thread::Queue.new.pop }
    rescue NB::DeadlockError
      puts "found"
    RUBY
    assert_equal "found\n", out
  end

  virtual "the_dump_tells_its_times" do
    NB.async { sleep(3 * HOUR) }
    sleep(HOUR)
    assert_match(/waits 3600\.\d+ s for sleep \(at most 7\d\d\d\.\d+ s more\)/, NB.dump.to_s)
  end

  # From Ruby 4.0 on a forked child has no scheduler, and so a real clock.
  virtual "a_forked_child_goes_on", before: "4" do
    reader, writer = keep(*IO.pipe)
    pid = fork do
      sleep(HOUR)
      writer.write((clock - @start).round(1))
      exit!(0)
    end
    writer.close
    assert_equal HOUR.to_f.to_s, reader.read
    Process.wait(pid)
  end

  # As the thread of a log's appender. A look every 0.1 s would take 6 s.
  def test_a_thread_that_runs_for_a_moment_does_not_hold_the_clock_up
    log = Thread::Queue.new
    appender = Thread.new { nil while log.pop }
    start = Time.now
    NB.run(clock: :virtual) do
      queue = Thread::Queue.new
      NB.async { 60.times { log.push(1) && sleep(HOUR) } && queue.push(1) }
      queue.pop
    end
    assert_operator Time.now - start, :<, 3
  ensure
    log.close
    appender.join
  end

  # It never sleeps, and is interrupted all the same.
  def test_a_loop_that_jumps_for_ever_is_interrupted
    out = output_of <<~'RUBY'
      NB.run(clock: :virtual) do
        NB.every(1) { Process.kill(:INT, Process.pid) if (@ticks = @ticks.to_i + 1) == 100 }
        Thread::Queue.new.pop
      rescue Interrupt
        puts "stopped"
      end
    RUBY
    assert_equal "stopped\n", out
  end

  private

  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  def keep(*ios) = (@ios ||= []).concat(ios) && ios

  def output_of(script)
    Open3.capture2(*Program::RUBY, "-I#{Program::ROOT}/lib", "-rneverblock", "-e",
      "begin\n#{script}end").first
  end

  def serve(connection)
    NB.async do
      sleep(Integer(connection.gets))
      connection.puts("done")
    ensure
      connection.close
    end
  end

  def answer(server)
    seconds, asker = server.recvmsg
    NB.async { sleep(Integer(seconds)) && server.sendmsg("done", 0, asker) }
  end

  # So many seconds of virtual time, to the millisecond.
  def assert_passed(seconds) = assert_in_delta(seconds, clock - @start, 0.001)
end
