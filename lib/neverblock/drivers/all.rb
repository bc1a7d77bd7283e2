# frozen_string_literal: true

require_relative "registry"
# One line per library.

NB::Drivers.complete
