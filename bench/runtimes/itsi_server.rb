# frozen_string_literal: true

require_relative "../served/web_server"

# Rust (hyper, Tokio) with its fiber scheduler.
Bench.web_server "itsi_server", gems: { "itsi-scheduler" => "0.2.27", "itsi" => "0.2.27" } do
  label "Itsi with fibers"
  settings "one thread with its fiber scheduler; as it ships, more than 30 waiting requests get 503"
  serve do |port, rackup|
    # It asks for its scheduler before it has set up the way to its gems.
    itsi = File.join(ENV.fetch("GEM_HOME"), "bin", "itsi")
    [*Bench::Runtime.ruby, "-ritsi/scheduler", itsi, "serve", "-b", "http://127.0.0.1:#{port}",
     "-t", "1", "-w", params.fetch(:workers).to_s, "-f", "true", "-r", rackup]
  end
end
