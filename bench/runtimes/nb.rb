# frozen_string_literal: true

# This gem: a new fiber per job.
Bench.runtime "nb" do
  label "NeverBlock"
  ours
  enter do |work|
    require "neverblock"
    NB.run { work.call }
  end
end
