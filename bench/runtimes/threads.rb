# frozen_string_literal: true

# One thread per job, as Ruby does it without a scheduler.
Bench.runtime "threads" do
  label "threads"
  spawn { |job| Thread.new(&job) }
end
