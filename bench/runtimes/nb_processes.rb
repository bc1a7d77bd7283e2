# frozen_string_literal: true

# This gem: a forked process per job.
Bench.runtime "nb_processes" do
  label "NB.in_process"
  ours
  enter do |work|
    require "neverblock"
    NB.run { work.call }
  end
end
