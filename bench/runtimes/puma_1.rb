# frozen_string_literal: true

# Puma with one thread: one request after the other, as servers did in 2008.
Bench.runtime "puma_1" do
  label "Puma, 1 thread"
  home "puma"
  needs_ruby "3.4", "the server tables are measured on Ruby 3.4"
  needs "wrk", "taskset"
  gems { { "rack" => "3.2.8", "pg" => "1.7.0", "puma" => "8.0.2" } }
  serve { |port, rackup| ["puma", "-q", "-t", "1:1", "-b", "tcp://127.0.0.1:#{port}", rackup] }
end
