# frozen_string_literal: true

module NB
  module Rails
    # Two methods that NeverBlock of 2008 added to controllers, to say which actions may wait. Now
    # every action may, and none has to be held back, so they do nothing.
    module OldNames
      # In 2008 it named the actions to run one at a time.
      # @return [void]
      # @scheduling never waits
      def allowblock(*) = nil

      # In 2008 it named the actions to run in fibers.
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
