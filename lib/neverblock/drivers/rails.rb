# frozen_string_literal: true

require_relative "registry"

# Rails, whichever of the two is loaded first. The room of Rails has all that it needs;
# lib/neverblock.rb is the door to it.
NB::Drivers.register("rails", constant: "Rails::Railtie", version: "Rails::VERSION::STRING") do
  NB::Rails::Railtie.watch_order
end
