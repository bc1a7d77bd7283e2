# frozen_string_literal: true

require "minitest/autorun"
require_relative "crossing"

# One run of {Crossing} per backend. The seed of the run is that of the faults (NB_CHAOS), or one of
# minitest's; `rake chaos[1000]` runs it for a thousand.
class CrossingTest < Minitest::Test
  NB::Native.backends.each do |backend|
    define_method("test_nothing_crosses_#{backend}") do
      crossing = Crossing.new(Integer(ENV.fetch("NB_CHAOS") { rand(1 << 30) }), backend)
      crossing.run
      assert_empty crossing.wrong, "seed #{crossing.seed}"
      assert_operator crossing.checks, :>=, 150, "seed #{crossing.seed}: too little was tried"
    end
  end
end
