# frozen_string_literal: true

require_relative "../served/web_server"

# Rails on `nb serve`, with the lines that its users add.
Bench.web_server "nb_rails", gems: Bench::RAILS_GEMS do
  label "NeverBlock, Rails"
  settings "Rails 8.1 in production mode; nb serve with its defaults, no log; neverblock_postgresql"
  ours
  home "rails"
  variables "RAILS_ENV" => "production", "BENCH_ADAPTER" => "neverblock_postgresql",
            "BENCH_POOL_KEY" => "connections", "BENCH_ISOLATION" => "fiber"
  serve { |port, rackup| Bench.nb_serve(port, params, rackup.sub(".ru", "_rails.ru")) }
end
