# frozen_string_literal: true

# The server of socketry: a fiber per connection, async underneath.
Bench.runtime "falcon" do
  label "Falcon"
  needs_ruby "3.4", "the server tables are measured on Ruby 3.4"
  needs "wrk", "taskset"
  gems { { "rack" => "3.2.8", "pg" => "1.7.0", "falcon" => "0.57.0" } }
  serve do |port, rackup|
    ["falcon", "serve", "--bind", "http://127.0.0.1:#{port}", "--config", rackup,
     "--count", params.fetch(:workers).to_s]
  end
end
