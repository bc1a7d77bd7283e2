# frozen_string_literal: true

# The server that Rails ships, as it comes: five threads.
Bench.runtime "puma" do
  label "Puma, 5 threads"
  needs_ruby "3.4", "the server tables are measured on Ruby 3.4"
  needs "wrk", "taskset"
  gems { { "rack" => "3.2.8", "pg" => "1.7.0", "puma" => "8.0.2" } }
  serve do |port, rackup|
    workers = params.fetch(:workers)
    ["puma", "-q", "-t", "5:5", *(["-w", workers.to_s] if workers > 1),
     "-b", "tcp://127.0.0.1:#{port}", rackup]
  end
end
