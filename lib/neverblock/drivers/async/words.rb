# frozen_string_literal: true

module NB
  module Drivers
    module Async
      # What async asks of `Fiber.scheduler`, in {NB::Scheduler}. As in Async::Scheduler, whose
      # reference describes them; the work is done by the loop's {Root}. Switched off, there are
      # none of them.
      module Words
        # @!method add_child(node)
        #   Takes a task into the tree of this loop.
        # @!method transfer
        #   Waits until another fiber resumes or pushes this one.
        # @!method push(fiber)
        #   Has a fiber, or what behaves like one, go on later.
        # @!method resume(fiber, *values)
        #   Runs a fiber now, and the caller when that waits or ends.
        # @!method with_timeout(duration, exception, message)
        #   Raises in the block when it waits past the time.
        # @!method load
        #   How much of its time this thread computes, 0 to 1.
        # @!method async(*arguments, **options)
        #   Starts a task.
        # @!method stop
        #   Stops all tasks of this loop.
        # @!method cancel
        #   The same, by its newer name (2.38).
        # @!method sleep(duration = nil)
        #   As Kernel#sleep.
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

        # In a fiber as Async::Scheduler, everywhere else as Ruby.
        def raise(*arguments, **options)
          fiber, *rest = arguments
          return super unless fiber.is_a?(::Fiber) && (root = Async.root)

          root.raise(fiber, *rest, **options)
        end
      end
    end
  end
end
