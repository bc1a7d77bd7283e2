# frozen_string_literal: true

# EventMachine's reactor and plain fibers, as in 2014: its callbacks resume them.
Bench.runtime "em" do
  label "EventMachine"
  gems { { "eventmachine" => "1.2.7" } }
  enter do |work|
    require "eventmachine"
    EM.epoll
    EM.run do
      Fiber.new do
        work.call
        EM.stop
      end.resume
    end
  end
  spawn { |job| Fiber.new(&job).resume }
end
