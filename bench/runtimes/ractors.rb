# frozen_string_literal: true

# Ruby's parallel actors. A job must not see its surroundings, so workloads make theirs by hand.
Bench.runtime "ractors" do
  label "Ractors"
  spawn { |_job| raise NotImplementedError, "the workload starts its Ractors itself" }
end
