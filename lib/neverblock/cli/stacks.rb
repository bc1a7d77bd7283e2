# frozen_string_literal: true

require_relative "../server/command"

module NB
  module CLI
    # Ruby gives a fiber a part of the stack that a thread has: an eighth of it for methods (1,357
    # calls of a small one instead of 10,917), half of it for C. What runs in a thread shall run in
    # a fiber, but Ruby settles this when it starts; so a command that runs an application starts
    # itself anew. Takes 40 ms once. What is not used of a stack is no memory.
    #
    # Ruby also settles then whether it gives back the memory of a stack when its fiber has ended:
    # a system call for each task (madvise), which costs more than all else of a task that ends at
    # once. The next fiber wants the same memory, so it stays.
    module Stacks
      # What Ruby reads, and what threads have.
      SIZES = { "RUBY_FIBER_VM_STACK_SIZE" => "1048576",
                "RUBY_FIBER_MACHINE_STACK_SIZE" => "1048576" }.freeze
      # Whether a fiber that ends gives back the memory of its stack.
      RETURN = { "RUBY_SHARED_FIBER_POOL_FREE_STACKS" => "0" }.freeze
      # Tells the second start what the first has set, comma-separated; it leaves the environment as
      # the first found it.
      MARK = "NB_STACKS"
      private_constant :SIZES, :RETURN, :MARK

      # Comes back in the second start, or where the user has set a size himself.
      #
      # @yieldreturn [Hash{String=>String}] what the second start's environment has beside
      # @return [void]
      # @scheduling never waits
      def self.deepen
        return [*ENV[MARK].split(","), MARK].each { |name| ENV.delete(name) } if ENV.key?(MARK)
        return if SIZES.keys.any? { |name| ENV.key?(name) }

        settings = SIZES.merge(RETURN.except(*ENV.keys))
        environment = block_given? ? yield : {}
        exec({**settings, MARK => settings.keys.join(","), **environment}, *Server::Command.words)
      rescue SystemCallError
        nil # the stacks stay as they are
      end
    end
  end
end
