# frozen_string_literal: true

module NB
  # The extension already defines this class (its C half), so autoload cannot load the rest.
  class Server
    # Loads the rest when the first server is made, so a program that serves nothing loads none.
    # @api private
    def self.new(...)
      require_relative "../server"
      super
    end
  end
end
