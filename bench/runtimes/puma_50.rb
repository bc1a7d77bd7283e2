# frozen_string_literal: true

# Puma with as many threads as the pool of connections is large.
Bench.runtime "puma_50" do
  label "Puma, 50 threads"
  home "puma"
  needs_ruby "3.4", "the server tables are measured on Ruby 3.4"
  needs "wrk", "taskset"
  gems { { "rack" => "3.2.8", "pg" => "1.7.0", "puma" => "8.0.2" } }
  serve do |port, rackup|
    ["puma", "-q", "-t", "50:50", "-b", "tcp://127.0.0.1:#{port}", rackup]
  end
end
