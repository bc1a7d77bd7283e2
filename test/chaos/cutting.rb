# frozen_string_literal: true

require_relative "../support/sync_scenarios"
require_relative "chaos_run"

# Fibers that use what lib/neverblock/sync offers, and are cancelled or timed out at any moment: no
# slot, turn or thing stays taken, no fiber stays behind, a shielded section ends, a retry does not
# outlive its cancel, and who is cut gets what cut it and nothing else.
class Cutting < ChaosRun
  # What a timeout of ours raises.
  Late = Class.new(StandardError)

  include SyncScenarios

  private

  def conduct
    prepare(3)
    beside_servers(KINDS) do
      strands = Array.new(6) { |number| NB.async { 12.times { |turn| cut("#{number}.#{turn}") } } }
      strands.each(&:value)
    end
    check_rest
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
end
