# frozen_string_literal: true

require_relative "chaos_run"

# Fibers that use what lib/neverblock/sync offers, and are cancelled or timed out at any moment: no
# slot, turn or thing stays taken, no fiber stays behind, a shielded section ends, a retry does not
# outlive its cancel, and who is cut gets what cut it and nothing else.
class Cutting < ChaosRun
  # What a timeout of ours raises.
  Late = Class.new(StandardError)

  KINDS = %i[limiter keyed pool gather settle map first as_completed group shield retry_twice every
             deadline nested fiber_pool].freeze

  def initialize(...)
    super
    @inside = Hash.new(0)
    @left = {} # what may end after its owner
  end

  private

  def conduct
    @limiter, @keys = NB::Limiter.new(3), NB::Limiter.new(1)
    @pool = NB::ConnectionPool.new(size: 3, timeout: 30) { Object.new }
    strands = Array.new(6) { |number| NB.async { 12.times { |turn| cut("#{number}.#{turn}") } } }
    strands.each(&:value)
    check("limiter", 0, @limiter.stats[:running])
    check("keys", [0, 0], [0, 1].map { |key| @keys[key].stats[:running] })
    check("pool", 0, @pool.stats[:in_use])
    check("all at once", [0] * 3, NB.gather(*[-> { @limiter.with { pause && 0 } }] * 3))
  end

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

  def pool(_owner)
    @pool.with { |thing| at_most(1, thing.object_id) }
  end

  def gather(owner) = check(owner, [:value] * 3, NB.gather(*pieces(owner)))

  def settle(owner)
    late = NB.settle(*pieces(owner), timeout: [nil, 0.0003].sample(random: @random))
    check(owner, 3, late.size)
  end

  def map(owner) = check(owner, [:value] * 5, NB.map(1..5, concurrency: 2) { piece(owner) })
  def first(owner) = check(owner, :value, NB.first(*pieces(owner)))

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

  # Its end, not its value.
  def wait_for(task)
    task&.wait
  rescue NB::Cancelled
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
