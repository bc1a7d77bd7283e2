# frozen_string_literal: true

require_relative "../served/web_server"

# Puma with `plugin :neverblock`: its requests run in our fibers.
Bench.web_server "nb_puma", gems: { "puma" => "8.0.2" } do
  label "Puma with our plugin"
  ours
  home "puma"
  serve do |port, rackup|
    root = File.expand_path("..", __dir__)
    [*Bench::Runtime.ruby, "-I#{root}/../lib", Gem.bin_path("puma", "puma"), "-q", "-C",
     "#{root}/served/puma.rb", "-b", "tcp://127.0.0.1:#{port}", rackup]
  end
end
