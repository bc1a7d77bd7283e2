# frozen_string_literal: true

# Rust (hyper, Tokio) with its fiber scheduler.
Bench.runtime "itsi_server" do
  label "Itsi with fibers"
  needs_ruby "3.4", "the server tables are measured on Ruby 3.4"
  needs "wrk", "taskset"
  gems do
    { "rack" => "3.2.8", "pg" => "1.7.0", "itsi-scheduler" => "0.2.27", "itsi" => "0.2.27" }
  end
  serve do |port, rackup|
    # It asks for its scheduler before it has set up the way to its gems.
    itsi = File.join(ENV.fetch("GEM_HOME"), "bin", "itsi")
    [*Bench::Runtime.ruby, "-ritsi/scheduler", itsi, "serve", "-b", "http://127.0.0.1:#{port}",
     "-t", "1", "-w", params.fetch(:workers).to_s, "-f", "true", "-r", rackup]
  end
end
