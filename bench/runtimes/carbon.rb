# frozen_string_literal: true

# The fastest scheduler published so far (Zig, io_uring).
Bench.runtime "carbon" do
  label "carbon_fiber"
  needs_ruby "3.4", "carbon_fiber 0.2.1 needs Ruby 3.4 or newer"
  gems { { "carbon_fiber" => "0.2.1" } }
  enter do |work|
    require "carbon_fiber"
    drive(CarbonFiber::Scheduler.new, work)
  end
end
