# frozen_string_literal: true

require_relative "../support/contract"

# Threads beside the loop: joining them, their values and errors, and waking fibers from them.
class ThreadTest < Contract
  contract "join waits, others run" do
    gate = Queue.new
    thread = Thread.new { gate.pop && sleep(0.03) }
    assert_same thread, assert_takes(0.03) { (gate << 1) && thread.join }
  end

  contract "value gives the value" do
    assert_equal 42, Thread.new { sleep(0.01) && 42 }.value
    assert_equal 43, Thread.new { 43 }.value
  end

  contract "Thread.pass lets the others go on" do
    done = false
    other = strand { sleep(0.002) && done = true }
    Thread.pass until done
    assert other.value
  end

  class Stop < Exception; end # rubocop:disable Lint/InheritException

  contract "Thread.stop stops only its own strand" do
    stopped = parked { Thread.stop }
    assert_equal :on, strand { sleep(0.005) && :on }.value
    refute_predicate stopped, :ended?
    stopped.interrupt(Stop.new)
    assert_instance_of Stop, stopped.failure
  end

  # Ruby raises where no other thread is left.
  def test_run_ends_a_stop_of_the_block_of_a_loop_and_nobody_is_left_to_end_another
    script = <<~RUBY
      NB.run do
        Thread.stop
      rescue ThreadError => error
        puts error.message.lines.first
      end
      NB.run do
        block = Thread.current
        Thread.new { (Thread.pass until block.stop?) || block.run }
        p Thread.stop
      end
    RUBY
    assert_equal "stopping only thread\nnil\n", Subprocess.ruby(script).out
  end

  contract "join with a limit comes back in time" do
    thread = Thread.new { sleep }
    assert_nil(assert_takes(0.03) { thread.join(0.03) })
    assert_nil thread.join(0)
    thread.kill
    assert_same thread, thread.join(5)
    assert_same thread, thread.join(0)
  end

  contract "join without a number for a limit waits", ruby: ">= 3.3" do
    thread = Thread.new { sleep 0.03 }
    assert_same thread, assert_takes(0.02) { thread.join(Float::NAN) }
  end

  contract "join with a limit ends when the thread ends" do
    gate = Queue.new
    thread = Thread.new { gate.pop }
    joining = parked { assert_takes(0, slack: 1) { thread.join(5) } }
    gate << 1
    assert_same thread, joining.value
  end

  # No gap: a thread that the machine keeps from a CPU keeps Ruby's lock meanwhile.
  contract "a thread inherits the masks of its own strand, not those of others", gap: nil do
    gate = Queue.new
    masked = parked { Thread.handle_interrupt(Exception => :never) { gate.pop } }
    %i[new start fork].each do |start|
      late = Thread.public_send(start, 1, at: 2) do |one, at:|
        Thread.current.report_on_exception = false
        Timeout.timeout(0.02) { sleep(one + at) }
      end
      assert_raises(Timeout::Error) { late.value }
    end
    kept = Thread.handle_interrupt(Exception => :never) { Thread.new { gate.pop } }
    kept.raise(IOError)
    2.times { gate << :value }
    assert_equal %i[value value], [masked.value, kept.value]
  end

  contract "several join one thread" do
    gate = Queue.new
    thread = Thread.new { gate.pop }
    joining = Array.new(3) { parked { thread.value } }
    gate << :done
    assert_equal [:done] * 3, joining.map(&:value)
  end

  contract "the exception of a thread is raised in join" do
    thread = Thread.new { sleep(0.005) && raise(ArgumentError, "in the thread") }
    thread.report_on_exception = false
    assert_equal "in the thread", assert_raises(ArgumentError) { thread.join }.message
    assert_raises(ArgumentError) { thread.value }
  end

  contract "an interrupted join leaves the thread be" do
    gate = Queue.new
    thread = Thread.new { gate.pop }
    joining = parked { thread.join }
    joining.interrupt(RuntimeError.new("out"))
    assert_equal "out", joining.failure.message
    gate << 1
    assert_equal 1, thread.value
  end

  same_as_threads "join of oneself and wrong limits" do
    thread = Thread.new { sleep }
    answers = [outcome { Thread.current.join }, outcome { thread.join("x") }, outcome {
 thread.join(-1) }]
    thread.kill.join
    answers.inspect
  end

  contract "Thread#wakeup and Thread#kill of a thread that sleeps" do
    thread = Thread.new { sleep && :woken }
    sleep 0.001 until thread.status == "sleep"
    thread.wakeup
    thread.value
    thread = Thread.new { sleep }
    sleep 0.001 until thread.status == "sleep"
    assert_same thread, thread.kill.join
  end

  contract "thread-locals and fiber-locals" do
    Thread.current[:local] = 1
    Thread.current.thread_variable_set(:wide, 2)
    other = strand { [Thread.current[:local], Thread.current.thread_variable_get(:wide)] }.value
    assert_equal [nil, fibers? ? 2 : nil], other
    Thread.current.thread_variable_set(:wide, nil)
    assert_equal 1, Thread.current[:local]
  end

  contract "a burst of wake-ups from threads is lost nowhere", gap: 0.150 do
    queues = Array.new(100) { Queue.new }
    waiting = queues.map { |queue| strand { Array.new(20) { queue.pop }.sum } }
    threads = Array.new(4) do |n|
      Thread.new { queues.each_slice(4) { |some| 20.times { some[n] << 1 } } }
    end
    assert_equal [20] * 100, waiting.map(&:value)
    threads.each(&:join)
  end

  contract "a wake-up from a thread finds a sleeping loop", gap: nil do
    queue = Queue.new
    back = Queue.new
    thread = Thread.new { 300.times { queue << back.pop } }
    300.times do |i|
      back << i
      assert_equal i, queue.pop
    end
    thread.join
  end

  # No gap: a thread that the machine keeps from a CPU keeps Ruby's lock meanwhile.
  contract "a thread that is killed on its way into a read ends", gap: nil do
    300.times do
      reader, writer = IO.pipe
      thread = Thread.new { reader.read(2) }
      Thread.pass until thread.stop?
      thread.kill
      assert thread.join(5), "still alive"
      [reader, writer].each(&:close)
    end
  end

  contract "the limit of join is converted as Ruby does" do
    join = ->(*limit) { Thread.new { sleep(0.05) }.join(*limit) ? :ended : :limit }
    limits = [nil, 8, 5r, Float::INFINITY, 2**70, Struct.new(:to_f).new(5.0)]
    assert_equal([:ended] * limits.size, limits.map { |limit| join.call(limit) })
    assert_equal(%i[limit limit], [-1, 0].map { |limit| join.call(limit) })
    assert_raises(TypeError) { join.call("1") }
    assert_raises(ArgumentError) { join.call(1, 2) }
  end
end
