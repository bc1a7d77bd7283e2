# frozen_string_literal: true

require_relative "registry"
# One line per library.
require_relative "mysql2"
require_relative "rails"

NB::Drivers.complete
