# frozen_string_literal: true

module NB
  module Drivers
    module Async
      # The methods that async calls on `Fiber.scheduler`, for {NB::Scheduler}. They work like those
      # of Async::Scheduler, whose reference describes them; the loop's {Root} does the work. If the
      # cure is switched off, these methods do not exist.
      module Words
        # @!method add_child(node)
        #   Takes a task into the tree of this loop.
        # @!method transfer
        #   Waits until another fiber resumes or pushes this one.
        # @!method push(fiber)
        #   Makes a fiber, or an object that behaves like one, continue later.
        # @!method resume(fiber, *values)
        #   Runs a fiber now, and the caller again when that fiber waits or ends.
        # @!method with_timeout(duration, exception, message)
        #   Raises in the block if it takes longer than the duration.
        # @!method load
        #   The share of its time in which this thread computes, 0 to 1.
        # @!method async(*arguments, **options)
        #   Starts a task.
        # @!method stop
        #   Stops all tasks of this loop.
        # @!method cancel
        #   The same, by its newer name (2.38).
        # @!method sleep(duration = nil)
        #   The same as Kernel#sleep.
        # @!method children
        #   The outermost tasks of this loop.
        # @!method print_hierarchy(out = $stdout, backtrace: true)
        #   Writes the tree of tasks.
        %i[add_child transfer push resume with_timeout load async stop cancel sleep children
           print_hierarchy].each do |word|
          define_method(word) do |*arguments, **options, &block|
            root = Async.root or return super(*arguments, **options, &block)
            root.public_send(word, *arguments, **options, &block)
          end
        end

        # In a fiber, works like Async::Scheduler's; everywhere else, like Ruby's.
        def raise(*arguments, **options)
          fiber, *rest = arguments
          return super unless fiber.is_a?(::Fiber) && (root = Async.root)

          root.raise(fiber, *rest, **options)
        end
      end
    end
  end
end
