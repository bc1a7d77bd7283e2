# frozen_string_literal: true

require_relative "../served/web_server"

# `nb serve` as it comes.
Bench.web_server "nb_server" do
  label "NeverBlock"
  settings "nb serve with its defaults, no log"
  ours
  home "puma"
  serve { |port, rackup| Bench.nb_serve(port, params, rackup) }
end
