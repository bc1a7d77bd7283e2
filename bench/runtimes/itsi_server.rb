# frozen_string_literal: true

require_relative "../served/web_server"

# Rust (hyper, Tokio) with its fiber scheduler.
Bench.web_server "itsi_server", gems: { "itsi-scheduler" => "0.2.27", "itsi" => "0.2.27" } do
  label "Itsi with fibers"
  settings "one thread with its fiber scheduler, ruby_thread_request_backlog_size 20,000"
  serve do |port, rackup|
    # It asks for its scheduler before it has set up the way to its gems.
    itsi = File.join(ENV.fetch("GEM_HOME"), "bin", "itsi")
    [*Bench::Runtime.ruby, "-ritsi/scheduler", itsi, "serve", "-b", "http://127.0.0.1:#{port}",
     "-C", File.join(File.dirname(rackup), "itsi.rb"), "-t", "1",
     "-w", params.fetch(:workers).to_s, "-f", "true", "-r", rackup]
  end
end
