# frozen_string_literal: true

require "minitest/autorun"
require_relative "crossing"
require_relative "cutting"

# One run of {Crossing} and of {Cutting} per backend. The seed of the run is that of the faults
# (NB_CHAOS), or one of minitest's; `rake chaos[1000]` runs them for a thousand.
class CrossingTest < Minitest::Test
  [Crossing, Cutting].product(NB::Native.backends) do |kind, backend|
    define_method("test_#{kind.name.downcase}_#{backend}") do
      run = kind.new(Integer(ENV.fetch("NB_CHAOS") { rand(1 << 30) }), backend)
      run.run
      assert_empty run.wrong, "seed #{run.seed}"
      assert_operator run.checks, :>=, 150, "seed #{run.seed}: too little was tried"
    end
  end
end
