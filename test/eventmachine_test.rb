# frozen_string_literal: true

require "minitest/autorun"
require "em-http-request"
require "net/http"
require "neverblock/eventmachine"
require "neverblock/cli/delay_server"
require_relative "support/clock"
require_relative "support/subprocess"
require_relative "support/ticker"
require_relative "support/timing"

# EventMachine's reactor and our fibers in one thread, each with real sockets and timers.
class EventMachineTest < Minitest::Test
  include Clock

  LIMIT = 60

  def teardown = refute_predicate(EM, :reactor_running?)

  # --- both go on ---------------------------------------------------------------------------------

  def test_fifty_net_http_and_fifty_em_http_requests_of_a_second_take_one
    delay_server(1) do |uri|
      bodies = []
      took = seconds do
        run_reactor do
          fifty = NB::FiberPool.new(50)
          50.times { fifty.spawn { bodies << Net::HTTP.get(uri) } }
          NB.gather(*Array.new(50) { -> { bodies << em_get(uri).response } })
          fifty.wait
        end
      end
      assert_equal [100, ["done"]], [bodies.size, bodies.uniq]
      assert_operator took, :>=, 1.0
      assert_operator took, :<, 10, "one after another they take 100 s"
    end
  end

  # Both have the same thread, and come as often, however late a busy machine lets it run.
  def test_neither_side_is_ever_late_for_the_other
    delay_server(0.2) do |uri|
      beats = ticks = 0
      ticker = Ticker.new
      run_reactor do
        beating = NB.async { ticker.run }
        EM.add_periodic_timer(0.005) { beats += 1 }
        NB.async(background: true) { loop { sleep(0.005) && ticks += 1 } }
        3.times { NB.gather(-> { Net::HTTP.get(uri) }, -> { em_get(uri) }, -> { sleep 0.1 }) }
        ticker.stop
        beating.wait
      end
      assert_operator [beats, ticks].min, :>, 5
      assert_in_delta ticks, beats, [beats, ticks].max / 2
      assert_in_time ticker.stillest.still, 0.05
    end
  end

  def test_what_a_fiber_asks_of_the_reactor_is_done_at_once
    run_reactor do
      late = Array.new(20) do
        start = clock
        NB.await { |resume| EM.add_timer(0.005) { resume.call } }
        clock - start - 0.005
      end
      assert_operator late.sort[10], :<, 0.045 # without our loop as a guest it is 0.09, its quantum
    end
  end

  def test_sockets_of_both_talk_to_each_other
    echo = Module.new { define_method(:receive_data) { |data| send_data(data.upcase) } }
    run_reactor do
      signature = EM.start_server("127.0.0.1", 0, echo)
      port, = Socket.unpack_sockaddr_in(EM.get_sockname(signature))
      lines = NB.map(1..20, concurrency: 20) do |i|
        TCPSocket.open("127.0.0.1", port) do |socket|
          Array.new(5) { |j| socket.puts("line #{i}.#{j}") || socket.gets }
        end
      end
      assert_equal (1..20).map { |i| Array.new(5) { |j| "LINE #{i}.#{j}\n" } }, lines
    end
  end

  def test_callbacks_resume_plain_fibers_as_ever
    order = []
    run_reactor(stop: false) do
      fiber = Fiber.new do
        order << :before
        order << Fiber.yield
        EM.stop
      end
      EM.add_timer(0.01) { fiber.resume(:resumed) }
      fiber.resume
      order << :after
    end
    assert_equal %i[before after resumed], order
  end

  def test_the_pool_of_old_stops_with_yield_and_goes_on_by_a_callback
    delay_server(0.05) do |uri|
      order = []
      run_reactor do
        pool = NB::Pool::FiberPool.new(2)
        4.times do |i|
          pool.spawn do
            fiber = Fiber.current
            EM.add_timer(0.01) { fiber.resume(i) } # does not wait for what comes next
            order << [Fiber.yield, Net::HTTP.get(uri)]
          end
        end
        pool.wait
      end
      assert_equal Array.new(4) { |i| [i, "done"] }, order.sort
    end
  end

  def test_threads_wake_fibers_and_defer_works
    run_reactor do
      assert_equal :thread, NB.await { |resume| Thread.new { resume.call(:thread) } }
      assert_equal :deferred, NB.await { |resume| EM.defer(-> { :deferred }, resume.to_proc) }
      assert_equal :offloaded, NB.offload { :offloaded }
    end
  end

  def test_a_busy_fiber_lets_the_reactor_turn
    run_reactor do
      ticks = 0
      EM.add_periodic_timer(0.001) { ticks += 1 }
      busy = NB.async { sleep(0) while ticks < 10 }
      busy.wait
      assert_equal 10, ticks
    end
  end

  def test_a_thousand_fibers_with_timers_and_pipes
    run_reactor do
      pipes = Array.new(200) { IO.pipe }
      readers = pipes.map { |reader, _| NB.async { Integer(reader.readpartial(9)) } }
      sleepers = Array.new(800) { |i| NB.async { sleep(i % 10 / 1000.0) && 1 } }
      pipes.each_with_index { |(_, writer), i| EM.add_timer(i / 10_000.0) { writer.syswrite("1") } }
      assert_equal 1000, (readers + sleepers).sum(&:value)
      pipes.flatten.each(&:close)
    end
  end

  # --- how it ends --------------------------------------------------------------------------------

  def test_stop_cancels_the_fibers_before_run_returns
    ended = []
    run_reactor(stop: false) do
      %i[one two].each do |name|
        NB.async do
          sleep
        ensure
          ended << name
        end
      end
      NB.async { sleep(0.01) && EM.stop }
    end
    assert_equal %i[one two], ended.sort
    assert_nil Fiber.scheduler
  end

  def test_an_error_of_a_callback_comes_out_of_run_and_cancels_the_fibers
    ended = nil
    error = assert_raises(IOError) do
      run_reactor(stop: false) do
        NB.async do
          sleep
        rescue NB::Cancelled
          ended = :cancelled
          raise
        end
        EM.add_timer(0.01) { raise IOError, "broken" }
      end
    end
    assert_equal ["broken", :cancelled, nil], [error.message, ended, Fiber.scheduler]
    run_reactor { sleep 0.01 } # and it can run again
  end

  def test_an_error_of_a_fiber_is_reported_and_harms_nobody
    _, errors = capture_io do
      run_reactor { NB.async { sleep(0.001) && raise("broken") } && sleep(0.01) }
    end
    assert_match(/broken/, errors)
  end

  def test_exit_in_a_fiber_ends_the_program
    script = 'EM.run { NB.async { sleep 0.01; at_exit { puts "bye" }; exit 3 } }'
    result = Subprocess.ruby("require 'neverblock/eventmachine'; #{script}")
    assert_equal ["bye\n", 3], [result.out, result.status.exitstatus], result.err
  end

  def test_a_signal_reaches_the_program
    script = "EM.run { NB.async { sleep }; NB.async { sleep 0.01; Process.kill(:INT, $$); sleep } }"
    result = Subprocess.ruby("require 'neverblock/eventmachine'; begin; #{script}; " \
                             "rescue Interrupt; puts 'interrupted'; end")
    assert_equal "interrupted\n", result.out, result.err
  end

  def test_shutdown_hooks_and_the_tail_run_in_their_order
    order = []
    tail = -> { order << :tail }
    EM.run(-> { NB.async { EM.add_shutdown_hook { order << :hook } && EM.stop } }, tail)
    assert_equal %i[hook tail], order
  end

  def test_a_callback_must_not_wait_for_the_loop_and_is_told_so
    errors = []
    EM.run do
      2.times do
        NB.run { sleep 0.01 }
      rescue FiberError => e
        errors << e.message[/use NB.async/]
      end
      EM.stop
    end
    assert_equal ["use NB.async"] * 2, errors
  end

  # --- nested -------------------------------------------------------------------------------------

  def test_inside_a_loop_its_fibers_outlive_the_reactor
    order = []
    gate = Thread::Queue.new
    value = NB.run do
      NB.async { gate.pop && order << :fiber }
      EM.run { NB.async { sleep(0.01) && order << :inside && EM.stop } }
      order << :stopped
      gate << true
      sleep 0.01
      :value
    end
    assert_equal [:value, %i[inside stopped fiber]], [value, order]
  end

  def test_inside_a_loop_again_and_again
    NB.run { 3.times { EM.run { NB.async { sleep(0.001) && EM.stop } } } }
    3.times { EM.run { NB.async { sleep(0.001) && EM.stop } } }
  end

  def test_nothing_is_left_behind
    open_fds = -> { GC.start || Dir.children("/proc/self/fd").size } # pipes of tests before
    run = -> { run_reactor { NB.gather(-> { sleep 0.001 }, -> { Thread.new { nil }.join }) } }
    2.times { run.call }
    before = open_fds.call
    30.times { run.call }
    NB.run { 30.times { EM.run { NB.async { sleep(0.001) && EM.stop } } } }
    assert_equal before, open_fds.call
  end

  def test_run_within_run_calls_the_block
    order = []
    run_reactor(stop: false) do
      EM.run { order << :inner }
      order << :outer
      NB.async { EM.run { order << :fiber } && EM.stop }
    end
    assert_equal %i[inner outer fiber], order
  end

  def test_in_a_thread_of_its_own
    values = Array.new(1) { Thread.new { run_reactor { sleep(0.01) && @scheduler = NB.running? } } }
    values.each(&:join)
    assert @scheduler
    assert_nil Fiber.scheduler
  end

  def test_a_forked_reactor_has_a_loop_of_its_own
    reader, writer = IO.pipe
    run_reactor do
      pid = EM.fork_reactor do
        NB.async { sleep(0.01) && writer.syswrite("child #{NB.running?}") && EM.stop }
      end
      assert_equal "child true", NB.timeout(LIMIT) { reader.readpartial(99) }
      Process.wait(pid)
    end
  end

  def test_another_scheduler_stays_alone
    Thread.new do
      other = Class.new(NB::Scheduler).new # stands for one that is not ours
      other.define_singleton_method(:is_a?) { |_| false }
      Fiber.set_scheduler(other)
      EM.run { EM.next_tick { EM.stop } }
      Fiber.set_scheduler(nil)
    end.join
  end

  def test_a_loop_without_an_fd_says_so
    scheduler = NB::Scheduler.new(backend: :poll)
    Thread.new do
      Fiber.set_scheduler(scheduler)
      assert_raises(NotImplementedError) { EM.run { EM.stop } }
    end.join
  end

  private

  # The block is a fiber; when it ends the reactor stops, and what it raised is raised.
  def run_reactor(stop: true)
    return EM.run { yield } unless stop # rubocop:disable Style/ExplicitBlockArgument

    error = nil
    EM.run do
      NB.async do
        NB.timeout(LIMIT) { yield }
      rescue StandardError, Minitest::Assertion => e
        error = e
      ensure
        EM.stop
      end
    end
    raise error if error
  end

  def em_get(uri)
    http = EM::HttpRequest.new(uri.to_s).get
    NB.await do |resume|
      http.callback { resume.call(http) }
      http.errback { resume.raise(http.error.to_s) }
    end
  end

  def delay_server(delay)
    server = NB::DelayServer.new(delay: delay)
    serving = Thread.new { server.run }
    yield URI("http://127.0.0.1:#{server.port}/")
  ensure
    server.stop
    serving.join
  end
end
