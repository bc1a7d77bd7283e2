# frozen_string_literal: true

require_relative "support"

class TaskTest < Minitest::Test
  include SyncSupport

  scheduled "runs_at_once_until_its_first_wait" do
    steps = []
    task = NB::Task.new do
      steps << 1
      sleep(0.001)
      steps << 3
    end
    steps << 2
    task.wait
    assert_equal [1, 2, 3], steps
  end

  scheduled "value_is_the_value_of_the_block" do
    at_once = NB::Task.new { :at_once }
    later = NB::Task.new { sleep(0.001) && :later }
    refute_predicate at_once, :alive?
    assert_predicate later, :alive?
    assert_equal %i[at_once later], [at_once, later].map(&:value)
    assert_same later, later.wait
  end

  scheduled "wait_and_value_raise_what_the_block_raised" do
    task = NB::Task.new { sleep(0.001) && raise(KeyError, "no such thing") }
    first = assert_raises(KeyError) { task.wait }
    second = assert_raises(KeyError) { task.value }
    assert_same first, second
    refute_predicate task, :alive?
    refute_predicate task, :cancelled?
  end

  scheduled "many_fibers_and_threads_wait_for_one_task" do
    30.times do # now and then a thread ends just as the loop falls asleep
      task = NB::Task.new { sleep(0.002) && 42 }
      fibers = Array.new(5) { NB::Task.new { task.value } }
      threads = Array.new(5) { Thread.new { task.value } }
      assert_equal [42], (fibers + threads).map(&:value).uniq
    end
  end

  scheduled "a_waiter_may_give_up" do
    gate = Thread::Queue.new
    task = NB::Task.new { gate.pop && :done }
    assert_raises(Timeout::Error) { Timeout.timeout(0.01) { task.wait } }
    gate << true
    assert_equal :done, task.value
  end

  scheduled "cancel_raises_in_the_fiber_and_runs_every_ensure" do
    steps = []
    seen = nil
    reason = RuntimeError.new("shutting down")
    task = NB::Task.new do
      sleep
    rescue NB::Cancelled => error
      seen = error
      raise
    ensure
      steps << :ensure
      sleep(0.001)
      steps << :after_a_wait
    end
    assert_same task, task.cancel(reason)
    assert_empty steps, "cancel waited"
    assert_same task, task.wait
    assert_equal %i[ensure after_a_wait], steps
    assert_same reason, seen.cause
    assert_predicate task, :cancelled?
    error = assert_raises(NB::TaskCancelledError) { task.value }
    assert_same seen, error.cause
  end

  waits = {
    sleep: -> { sleep },
    queue: -> { Thread::Queue.new.pop },
    pipe: lambda do
      reader, writer = IO.pipe
      begin
        reader.read(1)
      ensure
        reader.close
        writer.close
      end
    end,
    task: -> { NB::Task.new { sleep(0.5) }.wait },
    group: -> { NB::Group.run { |group| group.async { sleep } } },
    timeout: -> { Timeout.timeout(60) { sleep } },
    child: lambda do
      pid = Process.spawn("sleep 60")
      begin
        Process::Status.wait(pid)
      ensure
        Process.kill(:KILL, pid)
        Process.detach(pid).join # async 2.46 cannot wait twice for one child
      end
    end
  }
  waits.each do |kind, wait|
    scheduled "cancel_comes_out_of_a_wait_for_#{kind}", clock: :virtual do
      task = NB::Task.new(&wait)
      sleep(0.001)
      assert_predicate task, :alive?
      assert_predicate task.cancel.wait, :cancelled?
    end
  end

  scheduled "cancel_from_another_thread" do
    task = NB::Task.new { sleep }
    Thread.new { task.cancel }.join
    assert_predicate task.wait, :cancelled?
  end

  scheduled "cancel_twice_is_cancel_once" do
    caught = 0
    task = NB::Task.new do
      begin
        sleep
      rescue NB::Cancelled
        caught += 1
      end
      begin
        sleep(0.005)
      rescue NB::Cancelled
        caught += 1
      end
    end
    task.cancel
    task.cancel
    sleep(0.001)
    task.cancel
    task.wait
    assert_equal 1, caught
  end

  scheduled "cancel_after_the_end_does_nothing" do
    done = NB::Task.new { 1 }
    assert_same done, done.cancel
    assert_equal 1, done.value
    sleep(0.001) # where it would arrive
  end

  scheduled "cancel_that_the_block_survives" do
    task = NB::Task.new do
      sleep
    rescue NB::Cancelled
      :survived
    end
    assert_equal :survived, task.cancel.value
    refute_predicate task, :cancelled?
  end

  scheduled "a_task_that_cancels_itself_leaves_at_once" do
    steps = []
    task = NB::Task.new do
      sleep(0.001)
      steps << :before
      task.cancel
      steps << :after
    ensure
      steps << :ensure
    end
    assert_predicate task.wait, :cancelled?
    assert_equal %i[before ensure], steps
  end

  # Some schedulers start a fiber at the next turn of the loop only.
  scheduled "cancel_before_the_start" do
    ran = false
    kind = Fiber.scheduler.class
    kind = kind.superclass if kind.name == "Async::Reactor" # which sets itself, and stays open
    late = Class.new(kind) do
      def fiber(&block) = super { sleep(0.001) && block.call }
    end
    in_loop(->(block) { SyncSupport.set(late.new, block) }) do
      task = NB::Task.new { ran = true }
      assert_predicate task, :alive?
      assert_predicate task.cancel.wait, :cancelled?
    end
    refute ran
  end

  scheduled "a_cancel_by_the_loop_is_a_cancel" do
    closing = NB::Cancelled.new("the loop is closing")
    report = captured_stderr do
      task = NB::Task.new { sleep(0.001) && raise(closing) }
      settled { !task.alive? }
      assert_predicate task.wait, :cancelled?
      assert_same closing, assert_raises(NB::TaskCancelledError) { task.value }.cause
    end
    assert_empty report
  end

  scheduled "the_value_of_a_cancelled_task_does_not_cancel_the_one_who_asks" do
    task = NB::Task.new { sleep }
    asker = NB::Task.new do
      task.value
    rescue StandardError => error
      error.class
    end
    task.cancel
    assert_equal NB::TaskCancelledError, asker.value
  end

  scheduled "an_error_nobody_waits_for_is_reported" do
    report = captured_stderr do
      NB::Task.new { raise "lost" }
      named = NB::Task.new { sleep(0.001) && raise("lost as well") }
      named.name = "fetch"
      settled { !named.alive? }
    end
    assert_match(/#<NB::Task .*task_test.rb:\d+ failed> ended with an exception/, report)
    assert_match(/lost \(RuntimeError\)/, report)
    assert_match(/#<NB::Task fetch .*failed>/, report)
    assert_match(/lost as well/, report)
  end

  scheduled "what_is_no_failure_goes_on_to_the_scheduler_unless_somebody_waits" do
    message = Class.new(Exception) # rubocop:disable Lint/InheritException -- such as Async::Stop
    task = NB::Task.new { sleep(0.001) && raise(message, "stop") }
    assert_raises(message) { task.value }
    in_fiber(SyncSupport::SCHEDULERS.keys.last) do
      passed_on = false
      Fiber.schedule do
        NB::Task.allocate.tap do |it|
          it.instance_variable_set(:@block, -> { raise message, "stop" })
          it.send(:run)
        end
      rescue message
        passed_on = true
      end
      assert passed_on
    end
  end

  scheduled "an_error_somebody_waits_for_is_not_reported" do
    report = captured_stderr do
      task = NB::Task.new { sleep(0.001) && raise("found") }
      assert_raises(RuntimeError) { task.wait }
    end
    assert_empty report
  end

  scheduled "reports_can_be_switched_off" do
    report = captured_stderr do
      silent = NB::Task.new { sleep(0.001) && raise("lost") }
      silent.report_on_exception = false
      settled { !silent.alive? }
      begin
        NB::Task.report_on_exception = false
        NB::Task.new { raise "lost" }
        loud = NB::Task.new { sleep(0.001) && raise("kept") }
        loud.report_on_exception = true
        settled { !loud.alive? }
      ensure
        NB::Task.report_on_exception = true
      end
    end
    assert_equal 1, report.scan("ended with an exception").size
    assert_match(/kept/, report)
  end

  scheduled "a_task_cannot_wait_for_itself" do
    task = NB::Task.new { sleep(0.001) && task.wait }
    assert_match(/for itself/, assert_raises(FiberError) { task.value }.message)
  end

  scheduled "waiting_where_it_would_stop_the_loop_is_refused" do
    task = NB::Task.new { sleep(0.001) }
    error = Fiber.new(blocking: true) { assert_raises(NB::NoSchedulerError) { task.wait } }.resume
    assert_match(/NB.run/, error.message)
    task.wait
    assert_same task, Fiber.new(blocking: true) { task.wait }.resume
  end

  if Fiber.method_defined?(:kill)
    scheduled "a_killed_fiber_ends_its_task" do
      fiber = nil
      task = NB::Task.new do
        fiber = Fiber.current
        sleep(0.001)
        fiber.kill
      end
      assert_predicate task.wait, :cancelled?
      assert_raises(NB::TaskCancelledError) { task.value }
    end
  end

  scheduled "inspect_tells_name_place_and_state" do
    task = NB::Task.new { sleep(0.001) }
    task.name = "nap"
    assert_match(/\A#<NB::Task nap .*task_test\.rb:\d+ running>\z/, task.inspect)
    assert_equal "#<NB::Task nap done>", task.wait.inspect
  end

  # Beside a place in UTF-8; a name may come from a client. The dump is of our loops only.
  scheduled "inspect_takes_a_name_of_any_encoding", others: false do
    names = {
      "f\u00fcr".encode("UTF-16LE") => "für", "f\u00fcr".encode("ISO-8859-1") => "für",
      "f\xfcr".b => "f\ufffdr", "\xff" => "\ufffd", "x".dup.force_encoding("UTF-7") => "x",
      "a\e[31m\nb" => "a\\x1b[31m\\x0ab"
    }
    names.each do |name, shown|
      task = eval("NB.async(name: name) { sleep }", binding, "pl\u00e4ne.rb", 7) # rubocop:disable Style/EvalWithLocation
      assert_equal "#<NB::Task #{shown} pl\u00e4ne.rb:7 running>", task.inspect
      assert_includes NB.dump.to_s, shown
      task.cancel.wait
    end
    text = NB.dump.to_s
    refute_match(/[\0-\x09\x0b-\x1f]/, text)
    assert_equal [true, Encoding::UTF_8], [text.valid_encoding?, text.encoding]
  end

  # Bytes, as a driver's message may be, beside a name that is no ASCII either.
  scheduled "the_report_of_an_error_in_bytes", others: false do
    task = nil
    _, report = capture_io do
      task = NB.async(name: "f\u00fcr") { raise "f\xfcr".b }
      sleep(0.001)
    end
    assert_match(/\A#<NB::Task für .*f\ufffdr/m, report)
    assert_match(/für.*\(f\ufffdr\)/, NB.dump.to_s)
    assert_raises(RuntimeError) { task.value }
  end

  scheduled "wrong_arguments_are_refused" do
    assert_raises(ArgumentError) { NB::Task.new }
    task = NB::Task.new { sleep(0.001) }
    assert_match(/got: 42/, assert_raises(ArgumentError) { task.cancel(42) }.message)
    task.wait
  end

  def test_a_task_needs_a_scheduler
    error = assert_raises(NB::NoSchedulerError) { NB::Task.new { flunk } }
    assert_match(/NB.run/, error.message)
  end

  # Frameworks wrap the block in what they hand on, and NB.gather calls what it is given in its own.
  scheduled "it_names_the_line_of_the_user" do
    captures = NB::Inheritance.instance_variable_get(:@captures)
    NB::Inheritance.add { ->(block) { block.call } }
    task = NB.async { sleep }
    assert_match(/\A#<NB::Task .*task_test.rb:#{__LINE__ - 1} running>\z/, task.inspect)
    task.cancel.wait
    two = [-> { begin sleep ensure raise("second") end }, Object.new]
    line = __LINE__ - 1
    def (two.last).call = raise("first")
    report = captured_stderr { assert_raises(RuntimeError) { NB.gather(*two) } }
    assert_match(/task_test.rb:#{line} failed> ended with an exception.+second/m, report)
  ensure
    NB::Inheritance.instance_variable_set(:@captures, captures)
  end

  scheduled "one_that_failed_unseen_is_told" do
    report = captured_stderr do
      NB.async { sleep(0.001) && raise(IOError, "lost") }.name = "late one"
      sleep(0.001) until NB::Task.unseen.last&.name == "late one"
    end
    failed = NB::Task.unseen.last
    assert_equal ["late one", "lost"], [failed.name, failed.error.message]
    name = /#<NB::Task late one .*task_test.rb:\d+ failed>/
    assert_match(/\A#{name} ended with an exception.+lost \(IOError\)/m, report)
    if Fiber.scheduler.is_a?(NB::Scheduler)
      assert_match(/^#{name}, and nobody has waited for it: IOError \(lost\)$/, NB.dump.to_s)
      waiting = NB.async { sleep }.tap { |task| task.name = "waiting" }
      assert_match(/waits .+ for sleep.*\n  is #<NB::Task waiting .*_test.rb:\d+ r/, NB.dump.to_s)
      waiting.cancel.wait
    end
    assert_raises(IOError) { failed.wait }
    refute_includes NB::Task.unseen, failed
    captured_stderr { 30.times { NB.async { raise "many" } } }
    assert_equal 20, NB::Task.unseen.size
  end

  Struck = Class.new(StandardError)
  WAYS = {value: -> { 1 }, error: -> { raise KeyError }, cancel: -> { sleep }}.freeze
  # Is told of tasks as a group is.
  Told = Struct.new(:ended) do
    def task_started(_task) = nil
    def task_ended(_task, _error) = self.ended = true
  end
  SOURCE = NB::Task.instance_method(:run).source_location.first # which nobody wraps
  private_constant :Struck, :WAYS, :Told, :SOURCE

  # As Thread#raise and a timeout of computing code do: once, at each line after the block.
  WAYS.each do |way, block|
    scheduled "a_strike_at_the_end_leaves_nobody_waiting_#{way}", others: false do
      lines = (1..30).take_while { |line| ends_though_struck?(line, way, block) }
      assert_includes 6...30, lines.size
    end
  end

  # @return [Boolean] whether there was such a line
  def ends_though_struck?(line, way, block)
    group, victim, left = Told.new, nil, 0
    strike = TracePoint.new(:line) do |point|
      next unless point.path == SOURCE && victim.equal?(Fiber.current) && (left -= 1).zero?

      raise Struck
    end
    task = NB::Task.new(group) do
      sleep(0)
      block.call
    ensure
      victim, left = Fiber.current, line
    end
    waiter = NB::Task.new { task.wait }
    captured_stderr do
      strike.enable do
        task.cancel if way == :cancel
        settled { !task.alive? }
        2.times { sleep(0) } # its last steps may wait
      end
    end
    assert settled { !waiter.alive? && group.ended }, "#{way}, line #{line}: #{waiter} #{group}"
    left <= 0
  end

  scheduled "a_task_cannot_be_copied" do
    task = NB::Task.new { sleep 0.001 }
    %i[dup clone].each { |name| assert_raises(TypeError) { task.public_send(name) } }
    assert_same task, task.wait
  end
end
