# frozen_string_literal: true

module NB
  module Rails
    # The two words that NeverBlock of 2008 gave to controllers, to say which actions may wait.
    # Every action may now, and none has to be held back, so they do nothing.
    module OldNames
      # It named actions that were run one at a time.
      # @return [void]
      # @scheduling never waits
      def allowblock(*) = nil

      # It named actions that were run in fibers.
      # @return [void]
      # @scheduling never waits
      def neverblock(*) = nil

      # @return [void]
      # @scheduling never waits
      def self.install
        names = self
        ActiveSupport.on_load(:action_controller) { extend names }
      end
    end
  end
end
