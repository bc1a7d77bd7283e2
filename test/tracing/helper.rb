# frozen_string_literal: true

require "minitest/autorun"
require_relative "run"

# Requests with an agent, and what it has told its collector of them.
module TracingTest
  # @param vendor [Module] of vendors/
  # @return [Tracing::Run]
  def traced(vendor, count, **how)
    run = Tracing::Run.new(vendor, **how).call(count)
    assert_empty run.check.wrong.first(20), run.log[0, 4000]
    refute_match(/detach|stack level|thread exited|ERROR --/i, run.log)
    assert_operator run.check.size, :>, count
    run
  end
end
