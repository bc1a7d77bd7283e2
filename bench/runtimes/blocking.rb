# frozen_string_literal: true

# Plain Ruby, one job after the other.
Bench.runtime "blocking" do
  label "blocking"
  spawn(&:call)
end
