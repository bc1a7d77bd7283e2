# frozen_string_literal: true

# The async and await that a reader of 2014 proposed: a thread per call, and a loop that asks every
# 50 ms whether it has ended.
Bench.runtime "polling" do
  label "polling await"
  spawn { |job| Thread.new(&job) }
end
