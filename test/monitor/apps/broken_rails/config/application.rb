# frozen_string_literal: true

require "rails"

# Names a class that there is not.
class BrokenApplication < Rails::Application
  config.middleware.use NoSuchMiddleware
end
