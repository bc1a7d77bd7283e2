# frozen_string_literal: true

require_relative "../served/web_server"

# C with a reactor thread of its own; iodine_50 has as many Ruby threads as puma_50.
Bench.web_server "iodine", sizes: [50], gems: { "iodine" => "0.8.3" } do |threads = 5|
  label "iodine, #{threads} threads"
  settings "-t #{threads}, no log; connections are kept"
  serve do |port, rackup|
    ["iodine", "-b", "127.0.0.1", "-p", port.to_s, "-t", threads.to_s,
     "-w", params.fetch(:workers).to_s, rackup]
  end
end
