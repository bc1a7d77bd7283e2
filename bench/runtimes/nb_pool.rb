# frozen_string_literal: true

# This gem with its pool: fibers are kept and used again.
Bench.runtime "nb_pool" do
  label "NeverBlock pool"
  ours
  enter do |work|
    require "neverblock"
    NB.run do
      @pool = NB::FiberPool.new(params.fetch(:count, 100))
      work.call
    end
  end
  spawn { |job| @pool.spawn(&job) }
end
