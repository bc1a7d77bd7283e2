# frozen_string_literal: true

require_relative "support"

# Random trees of groups, with errors, cancels, timeouts and early exits at random moments. What
# must hold whatever happens: when a group is left, none of its tasks is alive and every `ensure`
# that was entered has been left; and no cancel comes out of a wait after it.
class GroupChaosTest < Minitest::Test
  include SyncSupport

  Planned = Class.new(StandardError)

  # One run: what was begun and not ended, and every rule that was broken.
  class Run
    attr_reader :broken, :begun, :ended

    def initialize(seed)
      @random = Random.new(seed)
      @broken = []
      @begun = @ended = 0
    end

    def tree(depth)
      mine = []
      NB::Group.run do |group|
        (1 + @random.rand(4)).times { mine << group.async { leaf_or_tree(depth, group) } }
        act(group)
      end
    rescue Planned, Timeout::Error
      nap # a cancel that is left over would strike here
    ensure
      @broken << "a task outlived its group" if mine.any?(&:alive?)
    end

    private

    def leaf_or_tree(depth, group)
      @begun += 1
      depth.positive? && @random.rand < 0.4 ? tree(depth - 1) : act(group)
    ensure
      begin
        nap if @random.rand < 0.5 # where a cancel may strike that comes after the end of the work
      ensure
        @ended += 1
      end
    end

    def act(group)
      nap
      case @random.rand(12)
      when 0 then raise Planned
      when 1 then group.cancel
      when 2 then Timeout.timeout(0.0003) { sleep(0.002) }
      when 3 then Timeout.timeout(0.0005) { tree(0) }
      when 4 then group.async { leaf_or_tree(0, group) }
      when 5 then swallow { sleep(0.002) }
      when 6 then group.async { nap }.cancel
      else nap
      end
    end

    def swallow
      yield
    rescue NB::Cancelled
      nap
    end

    def nap = sleep(@random.rand(4) * 0.0003)
  end

  20.times do |round|
    scheduled "trees_round_#{round}" do
      seed = (Minitest.seed * 100) + round
      run = Run.new(seed)
      captured_stderr do
        8.times do
          task = NB::Task.new { run.tree(3) }
          sleep(run.begun % 3 * 0.0005)
          task.cancel if (seed + run.begun) % 3 == 0
          settled { !task.alive? } || flunk("hangs (seed #{seed})")
          task.wait
        end
      end
      assert_empty run.broken.uniq, "seed #{seed}"
      assert_operator run.begun, :>, 8
      assert_equal run.begun, run.ended, "an ensure was not left (seed #{seed})"
    end
  end
end
