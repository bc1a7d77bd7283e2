# frozen_string_literal: true

module NB
  module Drivers
    module Async
      # What Async::Task finds under the name Fiber: Ruby's class, except that it makes fibers of
      # our loop.
      class TaskFiber < ::Fiber
        # @return [Fiber]
        def self.new(annotation: nil, **options, &block)
          root = Async.root
          return ::Fiber.new(annotation: annotation, **options, &block) unless root

          root.new_fiber(annotation, block)
        end

        # Whether an object is a fiber of any kind.
        def self.===(object) = object.is_a?(::Fiber)
      end
    end
  end
end
