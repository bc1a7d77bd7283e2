# frozen_string_literal: true

# This gem: forked processes that are kept.
Bench.runtime "nb_process_pool" do
  label "NB::ProcessPool"
  ours
  enter do |work|
    require "neverblock"
    NB.run { work.call }
  end
end
