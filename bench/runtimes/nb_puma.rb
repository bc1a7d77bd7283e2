# frozen_string_literal: true

# Puma with `plugin :neverblock`: its requests run in our fibers.
Bench.runtime "nb_puma" do
  label "Puma with our plugin"
  home "puma"
  needs_ruby "3.4", "the server tables are measured on Ruby 3.4"
  needs "wrk", "taskset"
  gems { { "rack" => "3.2.8", "pg" => "1.7.0", "puma" => "8.0.2" } }
  serve do |port, rackup|
    root = File.expand_path("..", __dir__)
    [*Bench::Runtime.ruby, "-I#{root}/../lib", Gem.bin_path("puma", "puma"), "-q", "-C",
     "#{root}/served/puma.rb", "-b", "tcp://127.0.0.1:#{port}", rackup]
  end
end
