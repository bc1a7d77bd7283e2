# frozen_string_literal: true

require "neverblock"
require_relative "../support/leaks"

# What runs under chaos have in common: a seed, a loop, and a list of what was wrong. A subclass
# says in `conduct` what happens in the loop.
class ChaosRun
  attr_reader :seed, :wrong, :checks

  def initialize(seed, backend)
    @seed = seed
    @backend = backend
    @random = Random.new(seed)
    @wrong = []
    @checks = 0
  end

  # Fills {#wrong} and {#checks}.
  def run
    before = Leaks.snapshot
    watchdog = Thread.new { sleep(60) && give_up }
    NB.run(backend: @backend) do
      @scheduler = Fiber.scheduler
      conduct
      note_who_waits
    end
    watchdog.kill.join
    @wrong.concat(Leaks.since(before))
  end

  private

  def give_up
    warn "seed #{@seed}: still running", NB::Dump.new(@scheduler).to_s
    exit!(false)
  end

  def note_who_waits
    pause
    left = @scheduler.waits.reject { |wait| wait[:kind] == :run }
    @wrong << "left waiting: #{left}" unless left.empty?
  end

  def check(owner, expected, got)
    @checks += 1
    @wrong << "#{owner}: expected #{expected.inspect}, got #{got.inspect}" unless expected == got
  end

  def pause = sleep(@random.rand(4) * 0.0002)
end
