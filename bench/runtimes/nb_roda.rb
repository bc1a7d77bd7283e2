# frozen_string_literal: true

require_relative "../served/web_server"

# Roda on `nb serve`.
Bench.web_server "nb_roda", gems: { "roda" => "3.109.0" } do
  label "NeverBlock, Roda"
  settings "nb serve with its defaults, no log"
  ours
  home "roda"
  serve { |port, rackup| Bench.nb_serve(port, params, rackup.sub(".ru", "_roda.ru")) }
end
