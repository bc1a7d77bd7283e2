# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require "open3"
require "neverblock"
require "connection_pool"
require "net/http/persistent"
require_relative "../support/patience"

# The connection_pool gem in a loop: its waiters queue. Nothing is lost, whatever interrupts
# them, and elsewhere it is as before.
class ConnectionPoolGemTest < Minitest::Test
  include Patience

  # What a pool of ours lends: an object that notices two holders.
  class Thing
    def use
      raise "in two hands" if @used

      @used = true
      yield
    ensure
      @used = false
    end
  end

  def pool(size = 12, timeout: 20, **more)
    @made = 0
    ConnectionPool.new(size: size, timeout: timeout, **more) { (@made += 1) && Thing.new }
  end

  def test_the_cure_is_on
    assert_includes NB::Drivers.status.map(&:to_s), "connection_pool #{ConnectionPool::VERSION} on"
  end

  def test_nobody_is_overtaken
    skip "chaos changes whose turn it is" if ENV["NB_CHAOS"]
    order = []
    NB.run do
      mine = pool(2)
      gate = Queue.new
      holders = Array.new(2) { NB.async { mine.with { gate.pop } } }
      tasks = 8.times.map do |i|
        2.times { sleep(0.002) } # the one before is in the queue
        NB.async { 3.times { mine.with { |t| t.use { order << i && sleep(0.002) } } } }
      end
      2.times { sleep(0.002) && gate << true }
      [*holders, *tasks].each(&:wait)
    end
    rounds = order.each_slice(8).to_a
    assert_equal [*0..7], rounds.first
    assert_equal [[*0..7]] * 3, rounds.map(&:sort) # who is done goes to the end
    assert_equal 2, @made
  end

  def test_waits_are_even_and_wakeups_as_many_as_check_ins
    waits = []
    switches = nil
    NB.run do
      mine = pool
      before = NB.stats[:block_waits] + NB.stats[:sleep_waits]
      300.times.map { NB.async { 2.times { lend(mine, waits) } } }.each(&:wait)
      switches = NB.stats[:block_waits] + NB.stats[:sleep_waits] - before
    end
    late = waits.sort.last(300) # all but the first round
    assert_operator late.last, :<=, 2 * late[150] + 0.02
    assert_operator switches, :<, 3 * 600 # one sleep each, one wait, the locks
  end

  def test_timeouts_and_cancels_lose_nothing
    NB.run do
      mine = pool(3, timeout: 0.05)
      random = Random.new(1)
      tasks = 300.times.map do |i|
        NB.async do
          Timeout.timeout(0.02 + random.rand * 0.05) { mine.with { |t| t.use { sleep 0.003 } } }
        rescue Timeout::Error, ConnectionPool::TimeoutError
          i
        end
      end
      tasks.sample(100, random: random).each { |task| sleep 0.001 and task.cancel }
      tasks.each(&:wait)
      assert_equal 3, mine.available
      # All three can still be had at once.
      assert_equal 3, 3.times.map { NB.async { mine.with { |t| t.use { sleep(0.01) && t } } } }.map(&:value).uniq.size
    end
    assert_equal 3, @made
  end

  def test_errors_are_the_gems_own
    messages = with_and_without_loop do |options|
      mine = pool(1, timeout: 0.02)
      mine.with do
        waiting = spawn { mine.with(**options) { nil } }
        outcome { waiting.value }
      end
    end
    assert_equal messages[0], messages[1]
    assert_equal ConnectionPool::TimeoutError, messages[0][0][0]
  end

  # Whether a class of one's own counts depends on the gem's version.
  def with_and_without_loop
    [->(&block) { Thread.new(&block).value }, ->(&block) { NB.run(&block) }].map do |enter|
      [{}, { exception: KeyError }].map { |options| enter.call { yield options } }
    end
  end

  def test_a_stack_of_ones_own_sees_the_options
    seen = []
    stack = pool(1).instance_variable_get(:@available)
    stack.define_singleton_method(:connection_stored?) do |given = {}, **more|
      seen << (given || {}).merge(more).slice(:shard)
      false
    end
    NB.run { stack.pop(timeout: 0, shard: 3) }
    assert_equal [{ shard: 3 }], seen
  end

  def test_a_pool_in_another_ractor
    output, status = Open3.capture2e(RbConfig.ruby, "-W0", "-Ilib", "-e", <<~'RUBY')
      require "connection_pool"
      require "neverblock"
      NB.run { ConnectionPool.new { 1 }.with { |one| one } }
      options = { auto_reload_after_fork: false }
      options = {} if ConnectionPool::VERSION < "2.5"
      ractor = Ractor.new(options) { |given| ConnectionPool.new(**given) { "mine" }.with { |one| one + "!" } }
      puts ractor.respond_to?(:take) ? ractor.take : ractor.value
    RUBY
    assert_equal "mine!\n", output
    assert_predicate status, :success?
  end

  def test_the_end_of_the_pool_reaches_all_who_wait
    NB.run do
      mine = pool(1)
      closed = []
      waiting = nil
      mine.with do
        waiting = 5.times.map { NB.async { outcome { mine.with { nil } } } }
        sleep 0.01
        mine.shutdown { |thing| closed << thing }
        assert_equal [ConnectionPool::PoolShuttingDownError], waiting.map { |task| task.value[0] }.uniq
      end
      assert_equal 1, closed.size
    end
  end

  def test_a_discarded_connection_is_replaced_for_who_waits
    NB.run do
      mine = pool(1)
      first = second = waiting = nil
      mine.with do |thing|
        first = thing
        waiting = NB.async { mine.with { |other| second = other } }
        sleep 0.01
        mine.discard_current_connection
      end
      waiting.wait
      refute_same first, second
    end
  end

  def test_a_connection_goes_back_while_another_is_made
    NB.run do
      servers = Queue.new << true
      mine = ConnectionPool.new(size: 2, timeout: 5) { servers.pop && Thing.new }
      work = Queue.new
      users = [NB.async { mine.with { work.pop } }, NB.async { mine.with { nil } }]
      work << true
      sleep 0.01
      users.first.cancel # has given back already
      servers << true
      users.each(&:wait)
      assert_equal 2, mine.available
    end
  end

  def test_who_waits_makes_the_connection_that_another_could_not
    NB.run do
      servers = Queue.new
      mine = ConnectionPool.new(size: 1, timeout: 5) { servers.pop || raise(IOError, "refused") }
      cancelled, *others = Array.new(3) { NB.async { outcome { mine.with(&:itself) } } }
      cancelled.cancel
      cancelled.wait
      servers << false << :connection
      # Which of them is first in the queue is up to the loop.
      assert_equal [[IOError, "refused"], :connection], others.map(&:value).sort_by(&:to_s)
      assert_equal 1, mine.available
    end
  end

  # The child has copies of its parent's waiters, and none of them runs there.
  def test_a_forked_child_hands_nothing_to_the_waiters_of_its_parent
    [{}, { auto_reload_after_fork: false }].each do |options|
      NB.run do
        mine = pool(1, **options)
        waiting = nil
        answer = mine.with do
          waiting = NB.async { mine.with { :served } }
          eventually { NB.pools.any? { |one| one[:waiting] == 1 } }
          in_child { mine.checkin(force: true) || Array.new(2) { mine.with(timeout: 0.5) { :lent } } }
        end
        assert_equal [%i[lent lent], :served], [answer, waiting.value]
      end
    end
  end

  def test_threads_and_a_loop_share_a_pool
    mine = pool(2)
    threads = 4.times.map { Thread.new { 50.times { mine.with { |t| t.use { sleep 0.0005 } } } } }
    NB.run { 20.times.map { NB.async { 20.times { mine.with { |t| t.use { sleep 0.0005 } } } } }.each(&:value) }
    threads.each(&:value)
    assert_equal 2, mine.available
  end

  # Fibers that come and go keep the queue from ever being empty.
  def test_a_thread_has_its_turn_among_fibers
    NB.run do
      stack = stack_of(1)
      taken = stack.pop
      order = []
      enter = ->(name) { stack.pop(timeout: 10).then { |thing| (order << name) && stack.push(thing) } }
      first = in_queue(1) { NB.async { enter.call(:first) } }
      thread = spawn_thread { enter.call(:thread) }
      eventually { thread.stop? }
      last = NB.async { enter.call(:last) }
      sleep(0) # it goes to its place
      stack.push(taken)
      [first, last].each(&:wait)
      thread.join
      assert_equal %i[first thread last], order
    end
  end

  # The other thread waits in the gem's own way: no fiber had used the pool.
  def test_what_an_interrupted_thread_was_handed_reaches_another
    stack = stack_of(1)
    taken = stack.pop
    other = Thread.new { stack.pop(timeout: 10) }
    eventually { other.stop? }
    NB.run { hand_to_one_interrupted(stack, taken) }
    assert_same taken, outcome { other.value }
  end

  def test_what_an_interrupted_thread_was_handed_is_shut_down_with_the_pool
    closed = []
    NB.run do
      stack = stack_of(1)
      taken = stack.pop
      hand_to_one_interrupted(stack, taken) { stack.shutdown { |thing| closed << thing } }
      assert_equal [taken], closed
      assert_equal 1, stack.length
    end
  end

  # The fiber looks first, when the thread is before it; then the thread takes only one of the two.
  def test_who_is_first_later_learns_of_the_room
    NB.run do
      stack = stack_of(2)
      2.times { stack.pop }
      thread = in_queue(1) { spawn_thread { stack.pop(timeout: 10) } }
      fiber = in_queue(2) { spawn { outcome { NB.timeout(5) { stack.pop(timeout: 10) } } } }
      2.times { stack.decrement_created }
      assert_equal [Thing] * 2, [fiber, thread].map { |one| one.value.class }
    end
  end

  def test_the_subclass_of_net_http_persistent_is_left_alone
    NB.run do
      http = Net::HTTP::Persistent::Pool.new(size: 1) { |key| [key] }
      taken = http.checkout("a")
      waiting = %w[a b].map { |key| NB.async { http.checkout(key).tap { http.checkin(key) } } }
      sleep 0.01
      http.checkin("a")
      assert_equal [["a"], ["b"]], waiting.map(&:value)
      assert_equal ["a"], taken
    end
  end

  def test_outside_of_a_loop_it_is_as_before
    mine = pool(2)
    threads = 10.times.map { Thread.new { 20.times { mine.with { |t| t.use { Thread.pass } } } } }
    threads.each(&:value)
    assert_equal 2, mine.available
    assert_nil mine.instance_variable_get(:@available).instance_variable_get(:@neverblock_queue)
  end

  private

  def stack_of(size) = pool(size).instance_variable_get(:@available)

  # @yieldreturn [NB::Task, Thread] who then waits as the last of so many
  def in_queue(count)
    yield.tap { eventually(5) { NB.pools.any? { |one| one[:waiting] == count } } }
  end

  # The thread does not run between the hand-over and the interrupt.
  def hand_to_one_interrupted(stack, thing)
    stack.pop(timeout: 0, exception: false) # makes the queue
    waiter = in_queue(1) { spawn_thread { stack.pop(timeout: 10) } }
    stack.push(thing)
    yield if block_given?
    waiter.raise(IOError)
    assert_equal IOError, outcome { waiter.value }[0]
  end

  def lend(mine, waits)
    start = clock
    mine.with do |thing|
      waits << (clock - start)
      thing.use { sleep 0.002 }
    end
  end

  # @return what the block returns, or its error, in a forked child
  def in_child(&block)
    reader, writer = IO.pipe
    pid = fork do
      writer.write(Marshal.dump(outcome(&block)))
      writer.close
      exit!(0)
    end
    writer.close
    Marshal.load(reader.read)
  ensure
    reader.close
    Process.wait(pid)
  end

  def spawn(&block)
    NB.running? ? NB.async(&block) : spawn_thread(&block)
  end

  def spawn_thread(&block)
    Thread.new(&block).tap { |thread| thread.report_on_exception = false }
  end

  def outcome
    yield
  rescue StandardError => error
    [error.class, error.message]
  end
end
# rubocop:enable Layout/LineLength
