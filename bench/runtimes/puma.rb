# frozen_string_literal: true

require_relative "../served/web_server"

# The server that Rails ships, with five threads as it comes; puma_1 has one, as servers had in
# 2008, puma_12 and puma_50 as many as the pool of connections is large.
Bench.web_server "puma", sizes: [1, 12, 50], gems: { "puma" => "8.0.2" } do |threads = 5|
  label "Puma, #{threads} #{threads == 1 ? "thread" : "threads"}"
  settings "-t #{threads}:#{threads}, no log; keep-alive with its defaults"
  serve { |port, rackup| [*Bench.puma(port, params, threads), rackup] }
end
