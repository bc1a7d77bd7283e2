# frozen_string_literal: true

require_relative "../served/web_server"

# C with a reactor thread of its own, five Ruby threads.
Bench.web_server "iodine", gems: { "iodine" => "0.8.3" } do
  label "iodine, 5 threads"
  serve do |port, rackup|
    ["iodine", "-b", "127.0.0.1", "-p", port.to_s, "-t", "5",
     "-w", params.fetch(:workers).to_s, rackup]
  end
end
