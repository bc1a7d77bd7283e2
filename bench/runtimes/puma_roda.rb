# frozen_string_literal: true

require_relative "../served/web_server"

# Roda on Puma.
Bench.web_server "puma_roda", gems: { "puma" => "8.0.2", "roda" => "3.109.0" } do
  label "Puma, 5 threads, Roda"
  settings "-t 5:5, no log"
  home "roda"
  serve { |port, rackup| [*Bench.puma(port, params, 5), rackup.sub(".ru", "_roda.ru")] }
end
