# frozen_string_literal: true

require_relative "../errors"

module NB
  module Rails
    # An error in the application's configuration. The message names the line to change.
    class ConfigurationError < ::StandardError
      include Error
    end
  end
end
