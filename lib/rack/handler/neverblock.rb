# frozen_string_literal: true

# Rack 2 has the handlers that Rack 3 gave to the gem rackup.
module Rackup; end
require_relative "../../rackup/handler/neverblock"

module Rack
  module Handler
    Neverblock = ::Rackup::Handler::Neverblock unless const_defined?(:Neverblock, false)
    register :neverblock, "Rack::Handler::Neverblock" if respond_to?(:register)
  end
end
