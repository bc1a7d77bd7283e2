# frozen_string_literal: true

require_relative "../support/contract"
require_relative "../support/http_servers"
require "async"
require "async/barrier"
require "async/http/internet"
require "async/limited_queue" if Async::VERSION >= "2.25"
require "async/notification"
require "async/queue"
require "async/semaphore"
require "async/variable"
require "async/waiter"
require "neverblock"

# What async's words do: in plain threads each outermost one has a reactor of its own, in a loop of
# ours their tasks are fibers of the loop.
class AsyncTest < Contract
  def setup
    super
    @url = HTTPServers.url(50) # a process of its own, not of the one test that comes first
  end

  contract "Sync gives the block's value, or its error" do
    assert_equal :slept, (Sync { sleep(0.01) && :slept })
    error = assert_raises(ArgumentError) { Sync { raise ArgumentError, "no" } }
    assert_equal "no", error.message
    assert_nil Async::Task.current?
  end

  contract "Async and Sync nest" do
    values = Sync do |task|
      one = task.async { sleep(0.02) && 1 }
      two = Async { Sync { |same| [same, Async::Task.current] } }
      [one.wait, two.wait.uniq.size, Sync { |same| same.equal?(task) }]
    end
    assert_equal [1, 1, true], values
  end

  contract "a task runs at once until its first wait" do
    order = []
    Sync do |task|
      child = task.async { order << 1 && sleep(0.001) && order << 3 }
      order << 2
      child.wait
    end
    assert_equal [1, 2, 3], order
  end

  contract "tasks wait beside each other" do
    assert_takes(0.1) do
      Sync { |task| Array.new(20) { task.async { sleep 0.1 } }.each(&:wait) }
    end
  end

  contract "a failed task raises in whoever waits" do
    assert_raises(KeyError) { Sync { |task| task.async(finished: false) { raise KeyError }.wait } }
    kept = Sync { |task| task.async(finished: false) { sleep(0.001) && raise(KeyError) } }
    assert_raises(KeyError) { kept.wait }
  end

  contract "stop ends a task and its children, at once" do
    left = []
    Sync do |task|
      child = task.async do |parent|
        parent.async { noting(left, :grandchild) }
        noting(left, :child)
      end
      sleep 0.001
      child.stop
      assert_includes left, :child
      assert_nil child.wait
      assert_predicate child, :stopped?
    end
    assert_equal %i[child grandchild], left.sort
  end

  # Before, an Enumerator's fiber blocks the thread.
  contract "stop ends a task that waits in an Enumerator, at once", ruby: ">= 3.4" do
    left = []
    Sync do |task|
      child = task.async { Enumerator.new { |list| list << noting(left, :inner) }.next }
      sleep 0.001
      child.stop
      assert_equal [:inner], left
      assert_predicate child, :stopped?
    end
  end

  contract "a task that waits in an Enumerator, or has ended, is not resumed", only: :fibers,
    ruby: ">= 3.4" do
    Sync do |task|
      child = task.async { Enumerator.new { |list| list << sleep(0.01) }.next }
      2.times { task.reactor.resume(child.fiber) }
      fiber = child.fiber
      assert_equal 0, child.wait
      task.reactor.resume(fiber)
    end
  end

  contract "a task that stops itself leaves" do
    left = []
    task = Sync { |outer| outer.async { (left << 1) && Async::Task.current.stop } }
    assert_nil task.wait
    assert_equal [1], left
  end

  contract "a stop deferred comes at the end of the block" do
    left = []
    defer = Async::Task.method_defined?(:defer_cancel) ? :defer_cancel : :defer_stop
    Sync do |task|
      child = task.async do |own|
        own.public_send(defer) { sleep(0.01) && left << :whole }
        left << :never
      end
      child.stop
      child.wait
    end
    assert_equal [:whole], left
  end

  contract "with_timeout" do
    Sync do |task|
      assert_raises(Async::TimeoutError) { task.with_timeout(0.01) { sleep 5 } }
      assert_raises(IndexError) { task.with_timeout(0.01, IndexError) { sleep 5 } }
      assert_equal(:early, task.with_timeout(5) { sleep(0.001) && :early })
      assert_raises(Async::TimeoutError) { task.with_timeout(0.01) { |_| sleep 5 } }
    end
  end

  contract "with_timeout lets a block compute, and ends it where it waits", gap: nil do
    ticks = 0
    clock = Thread.new { loop { sleep(0.05) && ticks += 1 } } # threads get turns meanwhile
    computed = false
    Sync do |task|
      assert_raises(Async::TimeoutError) do
        task.with_timeout(0.01) do
          nil while ticks < 6
          computed = true
          sleep 5
        end
      end
    end
    assert computed
  ensure
    clock&.kill&.join
  end

  contract "a server of io-endpoint runs each connection in a task" do
    require "io/endpoint"
    require "io/endpoint/wrapper"
    tasks = []
    Sync do
      IO::Endpoint::Wrapper.default.schedule { tasks << Async::Task.current? }
      sleep 0.01
    end
    assert_kind_of Async::Task, tasks.first
  end

  contract "with_timeout when no time is left" do
    Sync do |task|
      [-1, 0, nil].each do |time|
        assert_raises(Async::TimeoutError) { task.with_timeout(time) { sleep 5 } }
        assert_raises(Async::TimeoutError) { task.with_timeout(time) { |_| sleep 5 } }
        assert_equal(:no_wait, task.with_timeout(time) { :no_wait })
      end
    end
  end

  contract "with_timeout without an end", only: :fibers do
    Sync do |task|
      assert_equal(:done, task.with_timeout(Float::INFINITY) { sleep(0.001) && :done })
      assert_equal(:done, task.with_timeout(Float::INFINITY) { |_| sleep(0.001) && :done })
    end
  end

  contract "a timeout that is moved and cancelled" do
    Sync do |task|
      assert_raises(Async::TimeoutError) do
        task.with_timeout(60) { |timeout| (timeout.duration = 0.01) && sleep(5) }
      end
      value = task.with_timeout(0.3) do |timeout|
        timeout.cancel!
        sleep 0.32
        timeout.cancelled?
      end
      assert value
    end
  end

  contract "Barrier" do
    done = []
    Sync do |task|
      barrier = Async::Barrier.new
      3.times { |number| barrier.async { sleep(0.002) && done << number } }
      barrier.wait
      assert_equal [0, 1, 2], done.sort

      2.times { barrier.async { sleep 5 } }
      barrier.stop
      assert task.alive?
    end
  end

  contract "Semaphore" do
    busy = most = 0
    Sync do
      semaphore = Async::Semaphore.new(2)
      tasks = Array.new(8) do
        semaphore.async do
          most = [most, busy += 1].max
          sleep 0.002
          busy -= 1
        end
      end
      tasks.each(&:wait)
    end
    assert_equal 2, most
  end

  contract "Queue and LimitedQueue" do
    [Async::Queue.new, Async::LimitedQueue.new(1)].each do |queue|
      taken = Sync do |task|
        task.async { (1..5).each { |number| queue.enqueue(number) } && queue.enqueue(nil) }
        Array.new(6) { queue.dequeue }
      end
      assert_equal [1, 2, 3, 4, 5, nil], taken
    end
  end

  contract "Condition and Notification hand a value to all who wait" do
    [Async::Condition.new, Async::Notification.new].each do |condition|
      values = Sync do |task|
        waiting = Array.new(3) { |number| task.async { [number, condition.wait] } }
        condition.signal(:go)
        waiting.map(&:wait)
      end
      assert_equal [[0, :go], [1, :go], [2, :go]], values
    end
  end

  contract "Variable and Waiter" do
    Sync do |task|
      variable = quietly { Async::Variable.new }
      waiting = task.async { variable.wait }
      variable.resolve(7)
      assert_equal 7, waiting.wait

      waiter = quietly { Async::Waiter.new }
      3.times { |number| waiter.async { sleep(0.002) && number } }
      assert_equal [0, 1, 2], (waiter.wait(2) + waiter.wait(1)).sort
    end
  end

  contract "annotations" do
    Sync do |task|
      child = task.async(annotation: "first") { |own| own.annotate("second") && sleep(0.01) }
      assert_equal "second", child.annotation
      child.wait
      assert_equal("here", task.annotate("here") { task.annotation })
    end
    assert_nil Fiber.current.annotation
  end

  contract "a transient task keeps nobody waiting" do
    left = []
    body = lambda do
      Async { |task| task.async(transient: true) { noting(left, :child) } && sleep(0.001) }
    end
    Thread.new { fibers? ? NB.run(backend: world.backend, &body) : body.call }.join
    assert_equal [:child], left
  end

  contract "a running task makes itself transient, or no longer" do
    left = []
    bodies = [
      -> { Async { |task| (task.transient = true) && noting(left, :transient) } },
      lambda do
        Async(transient: true) { |task| (task.transient = nil) || (sleep(0.01) && left << :done) }
      end
    ]
    bodies.each do |body|
      Thread.new { fibers? ? NB.run(backend: world.backend, &body) : Async { body.call } }.join
    end
    assert_equal %i[transient done], left
  end

  contract "the scheduler sleeps" do
    left = []
    Sync do |task|
      child = task.async { Fiber.scheduler.sleep(0.001) && left << :child }
      left << :beside
      child.wait
    end
    assert_equal %i[beside child], left
  end

  contract "the scheduler ends its tasks, by either name", only: :fibers do
    %i[stop cancel].each do |word|
      next unless Async::Node.method_defined?(word)

      tasks = [Async { sleep }, Async(transient: true) { sleep }]
      Fiber.scheduler.public_send(word)
      assert_equal [true, true], tasks.map(&:stopped?), word
    end
  end

  contract "async-http asks at once, and keeps its connections" do
    url = @url
    Sync do |task|
      internet = Async::HTTP::Internet.new
      2.times do
        asked = Array.new(5) { task.async { internet.get(url).read } }
        assert_equal ["done"], asked.map(&:wait).uniq
      end
    ensure
      internet.close
    end
  end

  # -- in a loop of ours only ---------------------------------------------------------------------

  contract "NB.timeout around Sync ends its tasks", only: :fibers do
    left = []
    assert_raises(Timeout::Error) do
      NB.timeout(0.5) do
        Sync do |task|
          task.async { |child| child.async { noting(left, :grandchild) } && noting(left, :child) }
          noting(left, :block)
        end
      end
    end
    assert_equal %i[block child grandchild], left.sort
    assert_nil Async::Task.current?
    assert_empty Fiber.scheduler.children.to_a
  end

  contract "a cancel waits for what the tasks' ensure does", only: :fibers do
    left = []
    task = NB.async do
      Sync do |sync|
        sync.async do
          noting(left, :child)
        ensure
          sleep(0.02) && left << :whole
        end
        sleep
      end
    end
    sleep 0.002
    task.cancel.wait
    assert_predicate task, :cancelled?
    assert_equal %i[child whole], left
  end

  contract "a task that is stopped in a wait of ours", only: :fibers do
    left = []
    pool = NB::ConnectionPool.new(size: 1) { Object.new }
    pool.with do
      Sync do |task|
        tasks = [task.async { noting(left, :pool) { pool.with { left << :never } } },
                 task.async { noting(left, :value) { NB.async { sleep 0.02 }.value } }]
        tasks.each(&:stop)
        tasks.each(&:wait)
      end
    end
    assert_equal %i[pool value], left.sort
  end

  contract "the fiber of Sync keeps its own", only: :fibers do
    Thread.current[:mine] = :kept
    fiber = Fiber.current
    assert_equal([:kept, fiber], Sync { [Thread.current[:mine], Fiber.current] })
    assert_equal(4, catch(:out) { Sync { throw :out, 4 } })
  end

  contract "a task outlives the fiber that started it", only: :fibers do
    done = Thread::Queue.new
    NB.async { Async { sleep(0.01) && done.push(:done) } }.wait
    assert_equal :done, done.pop
  end

  contract "a stop that comes too late meets nobody else", only: :fibers do
    lock = Mutex.new
    sync = nil
    fiber = NB.async do
      Sync { |task| (sync = task) && lock.synchronize { :won } }
      sleep 0.01
      :whole
    end
    lock.lock
    waiting = NB.async { Sync { |task| (sync = task) && lock.synchronize { :won } } && sleep(0.01) }
    lock.unlock
    sync.stop
    waiting.wait
    assert_equal :whole, fiber.value
  end

  contract "a cancel of the loop stops tasks and transient ones", only: :fibers do
    left = []
    error = assert_raises(KeyError) do
      Thread.new do
        Thread.current.report_on_exception = false
        NB.run(backend: world.backend) do
          Async { |task| task.async { noting(left, :child) } && noting(left, :task) }
          Async(transient: true) { noting(left, :transient) }
          raise KeyError, "the block"
        end
      end.join
    end
    assert_equal "the block", error.message
    assert_equal %i[child task transient], left.sort
  end

  contract "a reactor of its own is refused, and works in a thread", only: :fibers do
    error = assert_raises(NB::WrongThreadError) { Async::Reactor.new }
    assert_includes error.message, "Thread.new { }"
    assert_equal(3, Thread.new { Async { |task| task.async { 3 }.wait }.wait }.value)
    assert_equal(5, Sync { sleep(0.001) && 5 })
  end

  private

  # Newer versions call what it makes deprecated.
  def quietly
    verbose = $VERBOSE
    $VERBOSE = nil
    yield
  ensure
    $VERBOSE = verbose
  end

  # Waits, forever without a block, and tells when that ends.
  def noting(list, name, &block)
    block ? yield : sleep
  ensure
    list << name
  end
end

# Whether there is a cure at all.
class AsyncSwitchTest < Minitest::Test
  PROGRAM = <<~RUBY
    require "async"
    require "neverblock"
    try = -> { NB.run { Sync { sleep(0.001) && :cured } } rescue $!.class }
    p try.call
    NB::Drivers.off("async") if NB::Drivers.status.find { |row| row.name == "async" }.state == :on
    p try.call
    p Sync { sleep(0.001) && :outside }
  RUBY

  def test_switched_off_it_is_as_it_comes
    assert_equal [":cured", "NoMethodError", ":outside"], lines
    assert_equal ["NoMethodError", "NoMethodError", ":outside"], lines("NB_DRIVERS" => "-async")
  end

  private

  def lines(env = {})
    result = Subprocess.ruby(PROGRAM, env: env)
    assert_predicate result.status, :success?, result.err
    result.out.lines(chomp: true)
  end
end
