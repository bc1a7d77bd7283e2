# frozen_string_literal: true

# Dir.chdir while another fiber is inside a block of Dir.chdir. The directory belongs to the
# process, so Ruby raises RuntimeError if another thread is inside (all versions). The fibers of a
# loop are one thread: each would work in the other's directory, and if the blocks end in the order
# in which they began, the process stays in a directory where none of them began.
module NB
  module Repairs
    @in_directory = nil # the fiber inside the outermost block

    class << self
      # @return [Fiber, nil] the fiber for which this one runs; nil: it is inside a block already
      # @raise [RuntimeError] if another fiber is
      # @api private
      def enter_directory(loop)
        fiber = loop.current || ::Fiber.current
        return fiber unless @in_directory
        return if @in_directory.equal?(fiber)

        raise "conflicting chdir during another chdir block"
      end

      # @return the block's value
      # @api private
      def inside_directory(fiber)
        outer = @in_directory
        @in_directory = fiber
        yield
      ensure
        @in_directory = outer
      end
    end

    Fork.in_child { @in_directory = nil }

    { Dir.singleton_class => %i[chdir fchdir], Dir => %i[chdir] }.each do |owner, names|
      names.each do |name|
        next unless owner.method_defined?(name, false)

        repair(owner, name) do |original|
          proc do |*arguments, &block|
            fiber = Repairs.loop_here&.then { |loop| Repairs.enter_directory(loop) }
            next __send__(original, *arguments, &block) unless fiber && block

            __send__(original, *arguments) do |*path|
              Repairs.inside_directory(fiber) { block.call(*path) }
            end
          end
        end
      end
    end
  end
end
