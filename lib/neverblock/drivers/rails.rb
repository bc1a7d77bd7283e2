# frozen_string_literal: true

require_relative "registry"

# Applies what Rails needs, whether Rails or NeverBlock is loaded first. The code is in
# lib/neverblock/rails; lib/neverblock.rb loads it.
NB::Drivers.register("rails", constant: "Rails::Railtie", version: "Rails::VERSION::STRING") do
  NB::Rails::Railtie.watch_order
end
