# frozen_string_literal: true

# Ruby and the rack gem, no server: what a start takes at least.
Bench.runtime "ruby" do
  label 'ruby -e \'require "rack"\''
  home "puma"
  needs_ruby "3.4", "the server tables are measured on Ruby 3.4"
  gems { { "rack" => "3.2.8" } }
end
