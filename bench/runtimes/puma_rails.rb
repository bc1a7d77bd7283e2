# frozen_string_literal: true

require_relative "../served/web_server"

# Rails on Puma, as it comes.
Bench.web_server "puma_rails", gems: { **Bench::RAILS_GEMS, "puma" => "8.0.2" } do
  label "Puma, 5 threads, Rails"
  settings "Rails 8.1 in production mode; -t 5:5, no log"
  home "rails"
  variables "RAILS_ENV" => "production"
  serve { |port, rackup| [*Bench.puma(port, params, 5), rackup.sub(".ru", "_rails.ru")] }
end
