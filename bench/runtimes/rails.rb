# frozen_string_literal: true

# Rails behind one of several servers, each a process of its own that the cell starts: the cell
# itself is only their client.
Bench.runtime "rails" do
  label "Rails 8.1"
  needs_ruby "3.3", "falcon 0.57 needs Ruby 3.3 or newer"
  compiled "c_mix"
  gems do
    { "activerecord" => "8.1.4", "railties" => "8.1.4", "pg" => "1.7.0", "puma" => "8.0.2",
      "falcon" => "0.57.0" }
  end
end

module Bench
  # What readers call the servers that the application of bench/workloads/rails is served by.
  RAILS_SERVERS = {
    "nb" => "NeverBlock", "falcon" => "Falcon", "puma12" => "Puma, 12 threads",
    "puma5" => "Puma, 5 threads", "puma1" => "one Puma, 1 thread",
    "pumas2" => "2 Pumas behind nginx", "pumas4" => "4 Pumas behind nginx",
    "pumas12" => "12 Pumas behind nginx"
  }.freeze
end
