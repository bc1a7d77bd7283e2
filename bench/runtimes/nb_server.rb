# frozen_string_literal: true

# `nb serve` as it comes.
Bench.runtime "nb_server" do
  label "NeverBlock"
  home "puma"
  needs_ruby "3.4", "the server tables are measured on Ruby 3.4"
  needs "wrk", "taskset"
  gems { { "rack" => "3.2.8", "pg" => "1.7.0" } }
  serve do |port, rackup|
    root = File.expand_path("../..", __dir__)
    workers = params.fetch(:workers)
    [*Bench::Runtime.ruby, "-I#{root}/lib", "#{root}/exe/nb", "serve", "-q", "-C", "-",
     "-b", "tcp://127.0.0.1:#{port}", *(["-w", workers.to_s] if workers > 1), rackup]
  end
end
