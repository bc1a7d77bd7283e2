# frozen_string_literal: true

# Rack 2 has the handlers that moved to the gem rackup with Rack 3.
module Rackup; end
require_relative "../../rackup/handler/neverblock"

# Rack's own module.
module Rack
  # Where Rack 2 looks servers up by name.
  module Handler
    # The handler under the name that Rack 2 expects.
    Neverblock = ::Rackup::Handler::Neverblock unless const_defined?(:Neverblock, false)
    register :neverblock, "Rack::Handler::Neverblock" if respond_to?(:register)
  end
end
