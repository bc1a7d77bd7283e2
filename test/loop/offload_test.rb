# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "socket"
require "tmpdir"
require_relative "../support/subprocess"

class OffloadTest < Minitest::Test
  def test_value_and_error_come_back_from_another_thread
    NB.run do
      here = Thread.current
      refute_same here, NB.offload { Thread.current }
      error = assert_raises(ArgumentError) { NB.offload { raise ArgumentError, "inside" } }
      assert_equal "inside", error.message
    end
  end

  # As that of a block in a process of its own does; once, however often it is raised.
  def test_an_error_names_the_thread_and_the_caller
    [NB.method(:offload), NB::Drivers.method(:offload)].each do |offload|
      again = ArgumentError.new("again")
      lines = Array.new(3) do
        NB.run { named_caller { offload.call { raise again } } }
      rescue ArgumentError => error
        assert_equal error.backtrace, error.backtrace_locations.map(&:to_s) if RUBY_VERSION >= "3.4"
        error.backtrace
      end
      assert_equal 1, lines.uniq.size
      assert_operator lines[0].index { |line| line.include?("offload.rb") }, :<,
                      lines[0].index { |line| line.include?("named_caller") }
    end
  end

  def test_other_fibers_run_meanwhile
    gate = Thread::Queue.new
    NB.run do
      Fiber.schedule { gate << :go }
      assert_equal :go, NB.offload { gate.pop }
    end
  end

  def test_an_interrupt_at_any_return_leaves_the_threads_counted
    (1..).each do |step|
      offload = NB::Offload.new(size: 1)
      ended = struck_at(step) { offload.start { 1 } }
      assert_equal 5, NB.run { offload.call { 5 } }
      sleep 0.001 until offload.stats[:busy] <= 0
      assert_equal 0, offload.stats[:busy], "struck as #{step} returned"
      break if ended
    end
  end

  # Without a loop, too, no such call waits for other threads.
  def test_rubys_own_lookups_wait_for_no_block_of_the_program
    { 443 => -> { Addrinfo.tcp("127.0.0.1", "https").ip_port },
      EOFError => -> { TCPServer.open("127.0.0.1", "0") { |server| raise EOFError if server } },
      SocketError => -> { Addrinfo.tcp("127.0.0.1", "no such service") } }.each do |result, ask|
      NB.run do
        gate = Thread::Queue.new
        blocks = Array.new(40) { NB.async { NB.offload { gate.pop } } }
        sleep 0.001 until gate.num_waiting >= NB::Offload.default.size
        assert_operator result, :===, outcome(&ask)
      ensure
        blocks.each { gate << true }.each(&:wait)
      end
    end
  end

  def test_at_most_size_at_a_time_and_the_rest_queues
    offload = NB::Offload.new(size: 2)
    gate = Thread::Queue.new
    started = Thread::Queue.new
    jobs = Array.new(5) { |i| offload.start { started << i && gate.pop && i } }
    2.times { started.pop }

    assert_equal({ size: 2, threads: 2, busy: 2, queued: 3 }, offload.stats)
    5.times { gate << true }
    assert_equal [0, 1, 2, 3, 4], jobs.map(&:value)
  end

  def test_work_that_offloads_work_waits_for_no_thread
    offload = NB::Offload.new(size: 2)
    nested = lambda do |depth|
      depth.zero? ? offload.stats[:threads] : offload.call { NB.run { nested.call(depth - 1) } }
    end
    assert_equal 4, Timeout.timeout(30) { nested.call(4) }
    assert_equal 2, offload.stats[:size]
    jobs = Array.new(10) { offload.start { offload.call { :inner } } }
    assert_equal [:inner] * 10, Timeout.timeout(30) { jobs.map(&:value) }
  end

  # Such as the closes of many sockets.
  def test_urgent_work_that_waits_for_nothing_shares_a_few_threads
    offload = NB::Offload.new(size: 1)
    gate = Thread::Queue.new
    busy = offload.start { gate.pop }
    jobs = Array.new(500) { |number| offload.start(urgent: true) { number } }
    assert_equal (0...500).to_a, jobs.map(&:value)
    assert_operator offload.stats[:threads], :<, 100
    gate << :end
    assert_equal :end, busy.value
  end

  def test_urgent_work_that_waits_gets_a_thread_each
    offload = NB::Offload.new(size: 1)
    begun, gate = Array.new(2) { Thread::Queue.new }
    jobs = Array.new(20) { offload.start(urgent: true) { (begun << true) && gate.pop } }
    Timeout.timeout(30) { jobs.each { begun.pop } }
    later = offload.start { :later }
    20.times { |number| gate << number }
    assert_equal (0...20).to_a, jobs.map(&:value).sort
    assert_equal :later, later.value
  end

  def test_a_cancelled_fiber_leaves_the_work_to_its_end
    done = Thread::Queue.new
    gate = Thread::Queue.new
    NB.run do
      task = NB.async { NB.offload { gate.pop && done << :done } }
      task.cancel.wait
      gate << true
    end

    assert_equal :done, done.pop
  end

  # The work uses what the fiber's stack holds.
  (Fiber.method_defined?(:kill) ? %i[cancel kill] : %i[cancel]).each do |name|
    { operation: ->(work) { Fiber.scheduler.__send__(:offload_operation, work) },
      driver: ->(work) { NB::Drivers.offload(&work) } }.each do |kind, call|
      define_method("test_a_#{name}_does_not_leave_an_offloaded_#{kind}_behind") do
        gate = Thread::Queue.new
        order = []
        NB.run do
          task = NB.async do
            call.call(-> { gate.pop && order << :done })
          ensure
            order << :left
          end
          name == :kill ? task.fiber.kill : task.cancel
          sleep 0.001
          order << :opened
          gate << true
          task.wait
        end
        assert_equal %i[opened done left], order
      end
    end
  end

  # As a timeout does to a fiber that computes.
  # @return [Boolean] whether the block ended before that many returns of ours
  def struck_at(step, &block)
    left = step
    point = TracePoint.new(:return, :b_return) do |at|
      next unless at.path.include?("/lib/neverblock/") && (left -= 1).zero?

      Thread.current.raise(KeyError, "struck")
    end
    point.enable(target_thread: Thread.current, &block)
    true
  rescue KeyError
    false
  end

  # A library would free, or give to others, what the call still uses.
  def test_an_interrupt_at_any_return_leaves_no_call_of_a_driver_behind
    NB.run do
      (1..).each do |step|
        told = []
        whole = struck_at(step) do
          NB::Drivers.offload { [told << :begun, sleep(0.02), told << :ended] }
        end
        then_told = told.dup
        NB.offload { sleep(0.05) } # a call that was left behind would go on meanwhile
        assert_equal then_told, told, "struck as #{step} returned"
        assert_includes [[], %i[begun ended]], told
        break if whole
      end
    end
  end

  # Closed later, the fd may be another's.
  def test_an_interrupt_at_any_return_leaves_no_close_behind
    NB.run do
      (1..).each do |step|
        fd = IO.pipe.each { |io| io.autoclose = false }.first.fileno
        closed = -> { IO.for_fd(fd, autoclose: false).closed? rescue true } # rubocop:disable Style/RescueModifier
        whole = struck_at(step) { assert Fiber.scheduler.__send__(:close_elsewhere, fd) }
        then_closed = closed.call
        NB.offload { sleep(0.02) }
        assert_equal then_closed, closed.call, "struck as #{step} returned"
        break if whole
      end
    end
  end

  # Far more of them than a fiber's stack has room for frames.
  def test_no_number_of_interrupts_leaves_a_call_behind
    Dir.mktmpdir do |dir|
      file = File.join(dir, "file")
      bytes = "x" * (64 << 20)
      wait = Thread::Queue.new
      { -> { NB::Drivers.offload { wait.pop } } => -> { wait.num_waiting == 1 },
        -> { File.binwrite(file, bytes) } => -> { File.size?(file) } }.each do |call, begun|
        assert_instance_of IOError, interrupted(3000, call, begun) { wait << 1 }
      end
      assert_equal bytes.size, File.size(file)
    end
  end

  # As Thread#raise may, between two waits.
  def test_an_interrupt_may_strike_while_the_caller_looks_whether_the_call_is_over
    calls = []
    job = Object.new
    job.define_singleton_method(:done?) do
      calls << :done?
      raise IOError, "struck" if calls.size == 1

      calls.include?(:wait)
    end
    job.define_singleton_method(:wait) { calls << :wait }
    assert_raises(IOError) { NB::Native.outlast(job) }
    assert_equal %i[done? done? wait done?], calls
  end

  def test_a_caller_whose_stack_is_full_does_not_wait_for_ever
    result = Subprocess.ruby(<<~RUBY)
      def full = full
      job = Object.new
      job.define_singleton_method(:done?) { full }
      begin
        NB::Native.outlast(job)
      rescue SystemStackError
        print "left"
      end
    RUBY
    assert_equal ["left", false], [result.out, result.hung]
  end

  def test_what_cuts_an_offloaded_driver_is_called_once_and_only_for_the_interrupted
    gate = Thread::Queue.new
    cuts = 0
    NB.run do
      assert_equal 7, NB::Drivers.offload(-> { cuts += 1 }) { 7 }
      assert_equal 0, cuts
      task = NB.async { NB::Drivers.offload(-> { gate << (cuts += 1) }) { gate.pop } }
      task.cancel.wait
    end

    assert_equal 1, cuts
  end

  STORAGE = Fiber.respond_to?(:[])

  # What a block can leave on its thread, and what the next one sees of it.
  LEFT = {
    locals: [-> { Thread.current[:left] = 1 }, -> { Thread.current[:left] }],
    variables: [-> { Thread.current.thread_variable_set(:left, 1) },
                -> { Thread.current.thread_variable_get(:left) }],
    attributes: [-> { Thread.current.instance_variable_set(:@left, 1) },
                 -> { Thread.current.instance_variable_get(:@left) }],
    of_the_fiber: [-> { Fiber.current.instance_variable_set(:@left, 1) },
                   -> { Fiber.current.instance_variable_get(:@left) }],
    name: [-> { Thread.current.name = "left" }, -> { Thread.current.name }],
    priority: [-> { Thread.current.priority = 2 }, -> { Thread.current.priority }],
    abort: [-> { Thread.current.abort_on_exception = true },
            -> { Thread.current.abort_on_exception }],
    report: [-> { Thread.current.report_on_exception = !Thread.report_on_exception },
             -> { Thread.current.report_on_exception }],
    status: [-> { system("true") }, -> { $? }],
    storage: [-> { Fiber[:left] = 1 if STORAGE }, -> { Fiber[:left] if STORAGE }]
  }.freeze

  LEFT.each do |name, (leave, look)|
    define_method("test_of_a_job_is_not_left_its_#{name}") do
      offload = NB::Offload.new(size: 1)
      before = offload.call(&look)
      offload.call(&leave)

      if before.nil?
        assert_nil offload.call(&look)
      else
        assert_equal before, offload.call(&look)
      end
      assert_equal 1, offload.stats[:threads]
    end
  end

  def test_a_job_has_its_own_callers_storage
    skip "Ruby #{RUBY_VERSION} has no fiber storage" unless STORAGE

    seen = NB.run do
      %w[alice bob].map do |user|
        NB.async do
          Fiber[:user] = user
          seen = NB.offload { [Fiber[:user], Fiber[:user] = "changed", Fiber[:seen] = 1].first }
          [seen, Fiber[:user]]
        end.value
      end + [NB.async { NB.offload { [Fiber[:user], Fiber[:seen]] } }.value]
    end

    assert_equal [%w[alice alice], %w[bob bob], [nil, nil]], seen
  end

  def test_a_callers_masks_are_not_its_jobs
    offload = NB::Offload.new(size: 1)
    pending = Thread.handle_interrupt(Object => :never) do
      offload.call { Thread.current.raise("now") rescue $!.message }
    end

    assert_equal "now", pending
  end

  def test_a_job_that_ends_its_thread_ends_nothing_else
    offload = NB::Offload.new(size: 1)
    jobs = [offload.start { Thread.exit }, offload.start { :next }]

    assert_equal [nil, :next], jobs.map(&:value)
    assert_equal 1, offload.stats[:threads]
  end

  # The stack of a thread does not fit into the memory that the process may have.
  def test_a_thread_that_cannot_be_made_is_not_counted
    skip "Ruby #{RUBY_VERSION} hangs in such a Thread.new" if RUBY_VERSION >= "3.3"

    out = Subprocess.ruby(<<~'RUBY').out
      offload = NB::Offload.new(size: 2)
      pages = File.read("/proc/self/statm").to_i
      limit = Process.getrlimit(:AS)
      Process.setrlimit(:AS, pages * 4096 + 500_000, limit.last)
      error = (offload.start { 1 } rescue $!.class)
      Process.setrlimit(:AS, *limit)
      p error, offload.stats, offload.call { 2 }
    RUBY

    assert_equal "ThreadError\n{size: 2, threads: 0, busy: 0, queued: 0}\n2\n",
      out.gsub(/:(\w+)=>/, '\1: ')
  end

  def test_size_is_checked
    error = assert_raises(ArgumentError) { NB::Offload.new(size: 0) }
    assert_match(/size: .* 1 or more, got: 0/, error.message)
  end

  private

  # @return [Exception] what the call has raised
  def interrupted(times, call, begun)
    caught = nil
    NB.run do
      fiber = Fiber.schedule do
        call.call
      rescue Exception => caught # rubocop:disable Lint/RescueException -- compared
        nil
      end
      sleep(0) until begun.call
      times.times do |number|
        Fiber.scheduler.fiber_interrupt(fiber, IOError.new(number.to_s)) unless caught
        sleep(0)
      end
      yield
    end
    caught
  end

  def outcome
    yield
  rescue IOError, SocketError => error
    error
  end

  def named_caller = yield
end
