# frozen_string_literal: true

require_relative "../server/command"

module NB
  module CLI
    # Ruby gives a fiber a part of the stack that a thread has: an eighth of it for methods (1,357
    # calls of a small one instead of 10,917), half of it for C. What runs in a thread shall run in
    # a fiber, but Ruby settles this when it starts; so a command that runs an application starts
    # itself anew. Takes 40 ms once. What is not used of a stack is no memory.
    module Stacks
      # What Ruby reads, and what threads have.
      SIZES = { "RUBY_FIBER_VM_STACK_SIZE" => "1048576",
                "RUBY_FIBER_MACHINE_STACK_SIZE" => "1048576" }.freeze
      # Tells the second start, which leaves the environment as the first found it.
      MARK = "NB_STACKS"
      private_constant :SIZES, :MARK

      # Comes back in the second start, or where the user has set a size himself.
      #
      # @yieldreturn [Hash{String=>String}] what the second start's environment has beside
      # @return [void]
      # @scheduling never waits
      def self.deepen
        return [*SIZES.keys, MARK].each { |name| ENV.delete(name) } if ENV.key?(MARK)
        return if SIZES.keys.any? { |name| ENV.key?(name) }

        environment = block_given? ? yield : {}
        exec({**SIZES, MARK => "1", **environment}, *Server::Command.words)
      rescue SystemCallError
        nil # the stacks stay as they are
      end
    end
  end
end
