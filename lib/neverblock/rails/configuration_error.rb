# frozen_string_literal: true

require_relative "../errors"

module NB
  module Rails
    # What is wrong in the application's configuration, and which line to change.
    class ConfigurationError < ::StandardError
      include Error
    end
  end
end
