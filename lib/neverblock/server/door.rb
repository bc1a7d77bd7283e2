# frozen_string_literal: true

module NB
  # Its C half is part of the extension, so autoload can't load the rest.
  class Server
    # Loads the server for the first one that is made, which a program that serves nothing saves.
    # @api private
    def self.new(...)
      require_relative "../server"
      super
    end
  end
end
