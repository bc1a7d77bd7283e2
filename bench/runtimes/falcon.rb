# frozen_string_literal: true

require_relative "../served/web_server"

# The server of socketry: a fiber per connection, async underneath.
Bench.web_server "falcon", gems: { "falcon" => "0.57.0" } do
  label "Falcon"
  settings "one process per worker (--count), connections are kept"
  serve do |port, rackup|
    ["falcon", "serve", "--bind", "http://127.0.0.1:#{port}", "--config", rackup,
     "--count", params.fetch(:workers).to_s]
  end
end
