# frozen_string_literal: true

require "net/http"
require_relative "chaos_run"
require_relative "echo"

# Fibers that use what lib/neverblock/sync offers, and are cancelled or timed out at any moment: no
# slot, turn or thing stays taken, no fiber stays behind, a shielded section ends, a retry does not
# outlive its cancel, and who is cut gets what cut it and nothing else.
class Cutting < ChaosRun
  # What a timeout of ours raises.
  Late = Class.new(StandardError)

  KINDS = %i[limiter keyed span keyed_span pool gather settle map map_returns map_lazily first
             first_two as_completed group shield shields bounded_shield retry_twice retry_in_time
             every background until_stop deadline inherited nested fiber_pool process_pool
             http].freeze

  def initialize(...)
    super
    @inside = Hash.new(0)
    @left = {} # what may end after its owner
  end

  private

  def conduct
    @limiter, @keys = NB::Limiter.new(3), NB::Limiter.new(1)
    @spans, @key_spans = Array.new(2) { NB::Limiter.new(3, per: 0.0005) }
    @pool = NB::ConnectionPool.new(size: 3, timeout: 30) { Object.new }
    beside_servers do
      strands = Array.new(6) { |number| NB.async { 12.times { |turn| cut("#{number}.#{turn}") } } }
      strands.each(&:value)
    end
    check_rest
  end

  def beside_servers
    @processes = NB::ProcessPool.new(size: 2) { |value| sleep(0.0005) && (value * 2) }
    @echo = Echo.new(@random)
    @http = NB::HTTP.persistent(@echo.url, size: 2, pool_timeout: 30)
    yield
    check("http", 0, @http.stats[:in_use])
    check("processes", 0, @processes.stats[:in_use])
  ensure
    [@http, @processes, @echo].each(&:close)
    check("processes at the end", [], @processes.pids)
  end

  def check_rest
    check("limiter", 0, @limiter.stats[:running])
    check("keys", [0, 0], [0, 1].map { |key| @keys[key].stats[:running] })
    check("spans", [0] * 3, [@spans, @key_spans[0], @key_spans[1]].map { |one| waiting(one) })
    check("pool", 0, @pool.stats[:in_use])
    check("all at once", [0] * 3, NB.gather(*[-> { @limiter.with { pause && 0 } }] * 3))
  end

  # Those who still wait, once its turn has come again.
  def waiting(limiter) = limiter.with(timeout: 20) { limiter.stats[:waiting] }

  # One operation that is cancelled, times out, or is let alone.
  def cut(turn)
    kind = KINDS.sample(random: @random)
    owner = "#{kind} #{turn}"
    fate = %i[cancel late none].sample(random: @random)
    limit = @random.rand * 0.002
    task = NB.async do
      outcome { fate == :late ? NB.timeout(limit, Late) { send(kind, owner) } : send(kind, owner) }
    end
    pause
    task.cancel if fate == :cancel
    outcome = outcome { task.value }
    allowed = [:done, {cancel: NB::TaskCancelledError, late: Late}[fate]]
    check("#{owner}, #{fate}", true, allowed.include?(outcome) || outcome)
    wait_for(@left.delete(owner))
    check("#{owner}: pieces", 0, @inside[owner])
  end

  # What the block gives, or the class of what ended it.
  def outcome
    result = yield
    result.is_a?(Class) ? result : :done
  rescue NB::TaskCancelledError, Late => error
    error.class
  rescue NB::Cancelled
    raise
  rescue Exception => error # rubocop:disable Lint/RescueException -- written down
    @wrong << error.full_message(highlight: false)
    error.class
  end

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

  def limiter(_owner) = @limiter.with { at_most(3, "in the limiter") }

  def keyed(_owner)
    key = @random.rand(2)
    @keys[key].with { at_most(1, "of key #{key}") }
  end

  def span(owner) = check(owner, :value, @spans.with { piece(owner) })
  def keyed_span(owner) = check(owner, :value, @key_spans[@random.rand(2)].with { piece(owner) })

  def pool(_owner)
    @pool.with { |thing| at_most(1, thing.object_id) }
  end

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
    @left[owner]&.cancel
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
