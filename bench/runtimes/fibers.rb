# frozen_string_literal: true

# Ruby's own fibers, resumed by hand: no scheduler, no waiting.
Bench.runtime "fibers" do
  label "plain fibers"
  spawn { |job| Fiber.new(&job).tap(&:resume) }
end
