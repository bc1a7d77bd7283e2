# frozen_string_literal: true

# C with a reactor thread of its own, five Ruby threads.
Bench.runtime "iodine" do
  label "iodine, 5 threads"
  needs_ruby "3.4", "the server tables are measured on Ruby 3.4"
  needs "wrk", "taskset"
  gems { { "rack" => "3.2.8", "pg" => "1.7.0", "iodine" => "0.8.3" } }
  serve do |port, rackup|
    ["iodine", "-b", "127.0.0.1", "-p", port.to_s, "-t", "5",
     "-w", params.fetch(:workers).to_s, rackup]
  end
end
