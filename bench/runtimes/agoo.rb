# frozen_string_literal: true

require_relative "../served/web_server"

# C with threads of its own for connections; agoo_50 has as many Ruby threads as puma_50.
Bench.web_server "agoo", sizes: [50], gems: { "agoo" => "2.15.15" } do |threads = 5|
  label "Agoo, #{threads} threads"
  settings "#{threads} threads for Ruby, no log; connections are kept"
  serve do |port, rackup|
    # Its own program evaluates a rackup file as a text without a place.
    program = File.expand_path("../served/agoo.rb", __dir__)
    [*Bench::Runtime.ruby, program, port.to_s, threads.to_s, params.fetch(:workers).to_s, rackup]
  end
end
