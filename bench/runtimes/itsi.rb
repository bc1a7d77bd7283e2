# frozen_string_literal: true

# The scheduler of the itsi server (Rust, epoll).
Bench.runtime "itsi" do
  label "itsi-scheduler"
  gems { { "itsi-scheduler" => "0.2.27" } }
  enter do |work|
    require "itsi/scheduler"
    drive(Itsi::Scheduler.new, work)
  end
end
