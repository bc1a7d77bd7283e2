# frozen_string_literal: true

# `nb serve` with as many fibers as a thousand connections need that all wait.
Bench.runtime "nb_server_1024" do
  label "NeverBlock, 1,024 fibers"
  home "puma"
  needs_ruby "3.4", "the server tables are measured on Ruby 3.4"
  needs "wrk", "taskset"
  gems { { "rack" => "3.2.8", "pg" => "1.7.0" } }
  serve do |port, rackup|
    root = File.expand_path("../..", __dir__)
    [*Bench::Runtime.ruby, "-I#{root}/lib", "#{root}/exe/nb", "serve", "-q", "-C", "-",
     "--fibers", "1024", "-b", "tcp://127.0.0.1:#{port}", rackup]
  end
end
