# frozen_string_literal: true

require "support/contract"
require "random_programs/pair"

# A few random programs, each run by threads and by fibers: both must see the same. Many more:
# `rake fuzz:blocking[1000]`.
class RandomProgramsTest < Minitest::Test
  COUNT = 5

  Worlds.all.select(&:fibers?).each do |world|
    define_method("test_fibers_see_what_threads_see_#{world.name}") do
      COUNT.times do |index|
        seed = (Minitest.seed * COUNT) + index
        assert_empty RandomPrograms::Pair.new(seed, backend: world.backend).differences,
                     "rake fuzz:blocking[1,#{seed},#{world.name}]"
      end
    end
  end
end
