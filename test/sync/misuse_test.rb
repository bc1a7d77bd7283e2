# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a call or an expectation each, better on one line

require_relative "support"

# Wrong arguments and wrong moments for all that people call: one sentence with the value, and
# nothing stays behind. `inspect` of what was refused is in it.
class SyncMisuseTest < Minitest::Test
  include SyncSupport

  NUMBERS = [nil, "x", -1, 0, 2.5, Rational(5, 2), Complex(1, 1), Float::NAN, Float::INFINITY, :two, [1]].freeze
  SECONDS = ["1", false, -1, -0.1, Float::NAN, -Float::INFINITY, :two, Complex(1, 1), [1]].freeze
  NO_CALLABLES = [nil, "x", 5, [], Object.new].freeze
  COUNTS = {
    "size" => ->(value) { NB::FiberPool.new(value) },
    "size:" => ->(value) { NB::ConnectionPool.new(size: value) { 1 } },
    "concurrency:" => ->(value) { NB.map([1], concurrency: value) { 1 } }
  }.freeze
  LIMITS = {
    "NB.timeout: the limit" => ->(value) { NB.timeout(value) { flunk } },
    "timeout:" => ->(value) { NB::ConnectionPool.new(size: 1, timeout: value) { 1 } },
    "idle_timeout:" => ->(value) { NB::HTTP.persistent("a", idle_timeout: value) }
  }.freeze
  CALLABLES = {
    "alive:" => ->(value) { NB::ConnectionPool.new(size: 1, alive: value) { 1 } },
    "tidy:" => ->(value) { NB::ConnectionPool.new(size: 1, tidy: value) { 1 } },
    "close:" => ->(value) { NB::ConnectionPool.new(size: 1, close: value) { 1 } },
    "each argument" => ->(value) { NB.gather(-> { sleep }, value) }
  }.freeze
  BLOCKS = {
    "NB.run" => -> { NB.run }, "NB.async" => -> { NB.async }, "NB.group" => -> { NB.group },
    "NB.map" => -> { NB.map([1], concurrency: 1) }, "NB.timeout" => -> { NB.timeout(1) },
    "NB.offload" => -> { NB.offload }, "NB.await" => -> { NB.await },
    "NB.blocking" => -> { NB.blocking }, "NB.in_process" => -> { NB.in_process },
    "Group#async" => -> { NB.group(&:async) }, "Group.run" => -> { NB::Group.run }, "FiberPool#spawn" => -> { NB::FiberPool.new(1).spawn },
    "NB::ConnectionPool.new" => -> { NB::ConnectionPool.new(size: 1) },
    "NB::ProcessPool.new" => -> { NB::ProcessPool.new(size: 1) },
    "NB::Inheritance.add" => -> { NB::Inheritance.add },
    "ConnectionPool#with" => -> { NB::ConnectionPool.new(size: 1) { flunk }.with }
  }.freeze

  # @return [String] of the ArgumentError
  def refusal(...) = assert_raises(ArgumentError, ...).message

  def refuse(table, values)
    table.to_a.product(values) do |(name, call), value|
      message = refusal("#{name} with #{value.inspect}") { call.call(value) }
      assert_match(/\A#{Regexp.escape(name)} must .+, got: #{Regexp.escape(value.inspect)}\z/, message)
    end
  end

  scheduled "counts_that_are_none" do
    refuse(COUNTS, NUMBERS)
    refuse({ "queue:" => ->(value) { NB::FiberPool.new(1, queue: value) } }, NUMBERS - [nil, 0])
  end

  everywhere("seconds_that_are_none") { refuse(LIMITS, SECONDS) }

  everywhere "the_pool_goes_on_after_a_timeout_that_is_none" do
    pool = NB::ConnectionPool.new(size: 1) { 1 }
    SECONDS.each do |value|
      assert_match(/\Atimeout: must/, refusal { pool.with(timeout: value) { flunk } })
    end
    assert_equal 1, pool.with(timeout: Float::INFINITY, &:itself)
    assert_equal [0, 0], pool.stats.values_at(:in_use, :waiting)
  end

  scheduled("what_cannot_be_called") do
    refuse(CALLABLES, NO_CALLABLES)
    refuse({ "on_error:" => ->(value) { NB::FiberPool.new(1, on_error: value) } }, NO_CALLABLES - [nil])
  end

  scheduled "no_block" do
    BLOCKS.each { |name, call| assert_match(/\A#{Regexp.escape(name)}.* needs a block\z/, refusal(name, &call)) }
  end

  scheduled "a_block_too_many" do
    assert_match(/\ANB.gather takes callables and no block/, refusal { NB.gather { 1 } })
    assert_match(/\ANB.first takes callables and no block/, refusal { NB.first(-> { 1 }) { 2 } })
  end

  scheduled "no_items" do
    [nil, 5, Object.new].each do |items|
      assert_match(/items must respond to each, got/, refusal { NB.map(items, concurrency: 1) { 1 } })
    end
  end

  def test_urls_that_are_none
    [nil, "", "http://", "http://bad host/", "http://[::1", "ftp://a/", []].each do |url|
      assert_equal "not an HTTP URL with a host: #{url.inspect}", refusal { NB::HTTP.persistent(url) }
    end
  end

  def test_dumps_of_nothing
    assert_equal "scheduler must be an NB::Scheduler, got: nil", refusal { NB::Dump.new(nil) }
    NB.run do
      [-1, nil, "x"].each do |frames|
        message = refusal { NB::Dump.new(Fiber.scheduler, frames: frames) }
        assert_equal "frames: must be an Integer of 0 or more, got: #{frames.inspect}", message
      end
    end
  end

  everywhere "errors_that_cannot_be_raised" do
    ["late", 5, String, Object.new].each do |error|
      assert_match(/the error must be an exception or its class, got/, refusal { NB.timeout(1, error) { flunk } })
    end
    resumed = assert_raises(TypeError) { NB.await { |resume| resume.raise(5) } }
    assert_equal "exception class/object expected", resumed.message
  end

  # Ruby counts no such times, and has no such queues.
  scheduled "huge_numbers" do
    pool = NB::ConnectionPool.new(size: 1) { 1 }
    limiter = NB::Limiter.new(1)
    [10**30, 10**400, 1e300].each do |huge|
      NB.async { pool.with { limiter.with { sleep 0.001 } } }
      assert_equal 2, pool.with(timeout: huge) { limiter.with(timeout: huge) { 2 } }
      assert_equal [2, 3], NB.map([1, 2], concurrency: huge.to_i) { |item| item + 1 }
      assert_equal 4, NB.async { sleep(0.001) && 4 }.value(huge)
      assert_predicate NB.every(huge) { flunk }.tap { sleep 0.001 }, :alive? if Fiber.scheduler.is_a?(NB::Scheduler)
    end
  end

  scheduled "waits_whose_limit_is_none" do
    task = NB.async { sleep }
    limiter = NB::Limiter.new(1)
    SECONDS.each do |value|
      assert_match(/\Athe timeout of a task must/, refusal { task.wait(value) })
      assert_match(/\Atimeout: must/, refusal { limiter.with(timeout: value) { flunk } })
      next unless Fiber.scheduler.is_a?(NB::Scheduler)

      assert_match(/\ANB.shield: the bound must/, refusal { NB.shield(value) { flunk } })
    end
    task.cancel
  end

  everywhere "timeouts_without_end" do
    [nil, 0, 0.0, Float::INFINITY].each { |limit| assert_equal :done, NB.timeout(limit) { sleep(0.001) && :done } }
    error = assert_raises(Timeout::Error) { NB.timeout(0.001, nil, "too late") { sleep } }
    assert_equal "too late", error.message
    assert_equal "own", assert_raises(IOError) { NB.timeout(Rational(1, 1000), IOError, "own") { sleep } }.message
  end

  # As of `each`; the others are cancelled.
  scheduled "break_out_of_map" do
    ended = []
    value = NB.map(1..10, concurrency: 3) do |item|
      break [:broken, item] if item == 2

      sleep
    ensure
      ended << item
    end
    assert_equal [[:broken, 2], [1, 2]], [value, ended.sort]
    assert_equal([nil, 2, nil], NB.map(1..3, concurrency: 3) { |item| next if item.odd?; item })
  end

  scheduled "leaving_other_blocks" do
    assert_equal :thrown, (catch(:out) { NB.group { |group| group.async { sleep } && throw(:out, :thrown) } })
    assert_equal(:broken, NB.group { |group| group.async { sleep } && (break :broken) })
    assert_equal :returned, return_from_a_timeout
    assert_equal(:broken, NB::ConnectionPool.new(size: 1) { 1 }.with { break :broken })
  end

  def return_from_a_timeout = NB.timeout(5) { return :returned }

  def test_outside_of_a_loop
    [-> { NB.async { 1 } }, -> { NB.group { 1 } }, -> { NB.gather }, -> { NB.map([1], concurrency: 1) { 1 } },
     -> { NB.first(-> { 1 }) }, -> { NB::FiberPool.new(1).spawn { 1 } }].each do |call|
      assert_match(/NB\.run \{ \}/, assert_raises(NB::NoSchedulerError, &call).message)
    end
    assert_equal [1, 2, 3, nil, nil], [NB.offload { 1 }, NB.await { |resume| resume.call(2) }, NB.in_process { 3 }, NB.stats, NB.dump]
  end

  # Their fibers are not there.
  scheduled "tasks_of_the_parent_in_a_forked_child" do
    next unless Fiber.scheduler.is_a?(NB::Scheduler)

    task = NB.async { sleep }
    reader, writer = IO.pipe
    pid = fork do
      task.value
    rescue NB::Error => error
      writer.write("#{error.class} #{error.message}")
    ensure
      writer.close
      exit!
    end
    writer.close
    assert_match(/\ANB::ForkedError #<NB::Task .+misuse_test.rb:\d+ running> runs in the parent process/, reader.read)
    Process.wait(pid)
    reader.close
    task.cancel.wait
  end

  # Handlers run on the main thread.
  def test_in_a_trap_handler
    said = Thread::Queue.new
    before = trap(:USR2) do
      said << [NB.dump.to_s[/waits .+ for sleep/], NB.stats[:fibers], NB.running?]
      NB.async { said << :async }
    rescue Exception => error # rubocop:disable Lint/RescueException -- what it would end with
      said << error
    end
    NB.run do
      waiting = NB.async { sleep }
      Process.kill(:USR2, Process.pid)
      text, fibers, = NB.timeout(20) { said.pop }
      assert_match(/\Awaits \d.+ for sleep\z/, text)
      assert_operator fibers, :>=, 1
      assert_equal :async, NB.timeout(20) { said.pop }
      waiting.cancel.wait
    end
  ensure
    trap(:USR2, before || "DEFAULT")
  end
end
# rubocop:enable Layout/LineLength
