# frozen_string_literal: true

require "net/http"
require_relative "../chaos/echo"

# One use of each method of lib/neverblock/sync, for those who interrupt it: at any moment
# (test/chaos/cutting.rb), or at each in turn (test/sync/interrupted_test.rb). Each checks what must
# hold however it is left: {#piece} counts what is inside, {#check_rest} what must be free at the
# end.
#
# Who includes it has `check(owner, expected, got)`, `pause`, and a Random in @random.
module SyncScenarios
  # Those that need no loop.
  ANYWHERE = %i[limiter limiter_in_time keyed span keyed_span pool pool_in_time replaced closing
                shield shields retry_twice retry_in_time nested in_process process_pool http].freeze
  KINDS = [*ANYWHERE, *%i[gather settle map map_returns map_lazily first first_two as_completed
                          group group_fails group_cancels nest bounded_shield every background
                          until_stop deadline inherited fiber_pool offload await]].freeze

  private

  # @param size [Integer] how many at a time, of what is limited
  def prepare(size)
    @inside = Hash.new(0)
    @left = {} # what may end after its owner
    @gone = {}.compare_by_identity # not to be lent again
    @size = size
    @limiter, @keys = NB::Limiter.new(size), NB::Limiter.new(1)
    @spans, @key_spans = Array.new(2) { NB::Limiter.new(size, per: 0.0005) }
    @pool = NB::ConnectionPool.new(size: size, timeout: 30) { Object.new }
  end

  # @param kinds [Array<Symbol>] that will be used
  def beside_servers(kinds, processes: 2)
    @processes = process_pool_of(processes) if kinds.include?(:process_pool)
    @http = persistent_http if kinds.include?(:http)
    yield
    check("http", 0, @http.stats[:in_use]) if @http
    check("processes", 0, @processes.stats[:in_use]) if @processes
  ensure
    [@http, @processes, @echo].compact.each(&:close)
    check("processes at the end", [], @processes.pids) if @processes
  end

  def process_pool_of(size)
    NB::ProcessPool.new(size: size) { |value| sleep(0.0005) && (value * 2) }
  end

  def persistent_http
    @echo = Echo.new(@random)
    NB::HTTP.persistent(@echo.url, size: 2, pool_timeout: 30)
  end

  def check_rest
    check("limiter", 0, @limiter.stats[:running])
    check("keys", [0, 0], [0, 1].map { |key| @keys[key].stats[:running] })
    check("spans", [0] * 3, [@spans, @key_spans[0], @key_spans[1]].map { |one| waiting(one) })
    check("pool", 0, @pool.stats[:in_use])
  end

  # Those who still wait, once its turn has come again.
  def waiting(limiter) = limiter.with(timeout: 20) { limiter.stats[:waiting] }

  # Something that waits and must have ended when its owner has.
  def piece(owner)
    @inside[owner] += 1
    pause
    :value
  ensure
    @inside[owner] -= 1
  end

  def pieces(owner) = Array.new(3) { -> { piece(owner) } }

  # No more than so many at a time in the block.
  def at_most(count, name)
    @inside[name] += 1
    check(name, true, @inside[name] <= count)
    pause
  ensure
    @inside[name] -= 1
  end

  def limiter(_owner) = @limiter.with { at_most(@size, "in the limiter") }

  def limiter_in_time(_owner)
    @limiter.with(timeout: 0.0003) { at_most(@size, "in the limiter") }
  rescue NB::LimiterTimeoutError
    :done
  end

  def keyed(_owner)
    key = @random.rand(2)
    @keys[key].with { at_most(1, "of key #{key}") }
  end

  def span(owner) = check(owner, :value, @spans.with { piece(owner) })
  def keyed_span(owner) = check(owner, :value, @key_spans[@random.rand(2)].with { piece(owner) })

  def pool(_owner)
    @pool.with { |thing| at_most(1, thing.object_id) }
  end

  def pool_in_time(_owner)
    @pool.with(timeout: 0.0003) { |thing| at_most(1, thing.object_id) }
  rescue NB::PoolTimeoutError
    :done
  end

  # What is discarded, or is there at a reload, is not lent again.
  def replaced(_owner)
    @pool.with do |thing|
      @gone[thing] = true
      @random.rand(2).zero? ? @pool.discard : @pool.reload
      at_most(1, thing.object_id)
    end
    @pool.with { |thing| check("lent again", false, @gone.key?(thing)) }
  end

  # What was there is closed in the end, once; at the second call where the first was interrupted.
  def closing(owner)
    closed = @random.rand(2).zero? ? :reload : :close
    made = []
    pool = NB::ConnectionPool.new(size: 3, close: ->(one) { one << 1 && pause }) do
      made << []
      made.last
    end
    pool.with { pool.with { pause } }
    pool.public_send(closed)
  ensure
    begin
      pool&.close
    ensure
      pool&.close # also where the first was interrupted
    end
    check(owner, made.map { 1 }, made.map(&:size))
  end

  def in_process(owner) = check(owner, 42, NB.in_process { 6 * 7 })

  def process_pool(owner) = check(owner, owner * 2, @processes.call(owner))

  # An answer is its own, whatever became of the request before it on the same connection.
  def http(owner)
    ask("/#{owner.tr(" ", ".")}")
  ensure
    NB.shield { ask("/#{owner.tr(" ", ".")}.again") }
  end

  def ask(path) = check(path, path, @http.get(path).body)

  def gather(owner) = check(owner, [:value] * 3, NB.gather(*pieces(owner)))

  def settle(owner)
    late = NB.settle(*pieces(owner), timeout: [nil, 0.0003].sample(random: @random))
    check(owner, 3, late.size)
  end

  def map(owner) = check(owner, [:value] * 5, NB.map(1..5, concurrency: 2) { piece(owner) })

  # What cuts it is none of the errors that are returned.
  def map_returns(owner)
    values = NB.map(1..5, concurrency: 2, errors: :return) do |number|
      piece(owner)
      number.odd? ? number : raise(KeyError)
    end
    check(owner, [1, KeyError, 3, KeyError, 5],
          values.map { |value| value.is_a?(Exception) ? value.class : value })
  end

  def map_lazily(owner)
    values = NB.map((1..9).lazy, concurrency: 2) { piece(owner) }
    check(owner, [:value] * 3, values.first(3))
  end

  def first(owner) = check(owner, :value, NB.first(*pieces(owner)))
  def first_two(owner) = check(owner, [:value] * 2, NB.first(*pieces(owner), count: 2))

  def as_completed(owner)
    wanted = @random.rand(1..3)
    got = 0
    NB.as_completed(*pieces(owner)).each { break if (got += 1) == wanted }
    check(owner, wanted, got)
  end

  def group(owner)
    NB.group { |group| 3.times { group.async { piece(owner) } } }
  end

  def group_fails(owner)
    NB.group do |group|
      2.times { group.async { piece(owner) } }
      group.async { pause && raise(KeyError, owner) }
      pause
      piece(owner)
    end
  rescue KeyError => error
    check(owner, owner, error.message)
  end

  def group_cancels(owner)
    NB.group do |group|
      2.times { group.async { piece(owner) } }
      pause
      group.cancel
    end
  end

  # Within each other, as programs have them.
  def nest(owner)
    NB.timeout(10) do
      @limiter.with do
        NB.retry(on: KeyError, wait: 0) do |attempt|
          NB.group { |group| group.async { @pool.with { piece(owner) } } }
          raise KeyError if attempt == 1
        end
      end
    end
  rescue KeyError
    raise unless NB.deadline # which has passed: no further attempt
  end

  def offload(owner) = check(owner, :done, NB.offload { sleep(0.0001) && :done })

  def await(owner)
    check(owner, :done, NB.await { |resume| NB.async { pause && resume.call(:done) } })
  end

  def shield(owner)
    begun = ended = 0
    NB.shield do
      begun += 1
      2.times { pause }
      ended += 1
    end
    pause
  ensure
    check(owner, begun, ended)
  end

  def shields(owner)
    begun = ended = 0
    NB.shield do
      begun += 1
      NB.shield { pause }
      pause # also a cancel that came in the inner one
      ended += 1
    end
  ensure
    check(owner, begun, ended)
  end

  # It may be cut, after its bound.
  def bounded_shield(owner) = check(owner, :value, NB.shield(0.0003) { pause && piece(owner) })

  # Ends by an error of the block or by the timeout, and soon.
  def retry_in_time(owner)
    NB.timeout(0.002) do
      NB.retry(times: 1_000, on: Exception, wait: 0.0005, max_wait: 0.0005) do
        piece(owner)
        raise IOError
      end
    end
  rescue IOError, Timeout::Error
    :done
  end

  def retry_twice(owner)
    tries = 0
    NB.retry(times: 3, on: Exception, wait: 0.0002) do |attempt|
      tries = attempt
      piece(owner)
      raise "again" if attempt < 3
    end
    check(owner, 3, tries)
  rescue RuntimeError
    raise unless NB.deadline # the pause would have passed it
  end

  # A timeout that strikes while the task is made would leave nobody who knows of it.
  def every(owner)
    NB.shield { @left[owner] = NB.every(0.0005) { piece(owner) } }
    2.times { pause }
  ensure
    begin
      @left[owner]&.cancel
    ensure
      @left[owner]&.cancel # also where the first was interrupted
    end
  end

  # What waits is cut, not what it waits for.
  def background(owner)
    task = NB.shield { @left[owner] = NB.async(background: true) { piece(owner) } }
    check(owner, true, [nil, task].include?(task.wait(0.0003)))
    check(owner, :value, task.value(20))
  end

  def until_stop(owner) = check(owner, :value, NB.until_stop { piece(owner) })

  # What a task started ends by the deadline, whatever becomes of who started it.
  def inherited(owner)
    NB.timeout(0.0005) do
      NB.shield do
        @left[owner] = NB.async { piece(owner) && sleep }
        @left[owner].report_on_exception = false
      end
      sleep
    end
  rescue Timeout::Error
    :done
  end

  # Its end, not its value.
  def wait_for(task)
    task&.wait
  rescue NB::Cancelled, Timeout::Error
    nil
  end

  def deadline(owner)
    left = NB.timeout(20) { pause && NB.gather(-> { NB.deadline }) }.first
    check(owner, true, left <= 20)
  end

  # The inner one is its own.
  def nested(owner)
    mine = Class.new(StandardError)
    got = begin
      NB.timeout(10) { NB.timeout(0.0003, mine) { Thread::Queue.new.pop } }
    rescue mine
      :mine
    end
    check(owner, :mine, got)
  end

  # Its blocks go on when who waits for them is cut.
  def fiber_pool(owner)
    pool = @left[owner] = NB::FiberPool.new(2)
    4.times { pool.spawn { piece(owner) } }
    pool.wait
  ensure
    pool&.close
  end
end
