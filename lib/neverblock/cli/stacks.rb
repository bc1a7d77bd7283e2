# frozen_string_literal: true

require_relative "../server/command"

NB::Server::Command.note_libraries

module NB
  module CLI
    # Ruby gives a fiber only a part of a thread's stack: an eighth of it for methods (1,357 calls
    # of a small method instead of 10,917), half of it for C. What runs in a thread must also run in
    # a fiber, but Ruby fixes the sizes when it starts. So a command that runs an application starts
    # Ruby again, which takes 40 ms once. Unused parts of a stack take no memory.
    #
    # At its start Ruby also decides whether to give back the memory of a stack when its fiber has
    # ended: one system call per task (madvise), which costs more than all the rest of a short task.
    # The next fiber needs the same memory, so it stays.
    module Stacks
      # The variables that Ruby reads, and the sizes that threads have.
      SIZES = { "RUBY_FIBER_VM_STACK_SIZE" => "1048576",
                "RUBY_FIBER_MACHINE_STACK_SIZE" => "1048576" }.freeze
      # Whether an ended fiber gives back the memory of its stack.
      RETURN = { "RUBY_SHARED_FIBER_POOL_FREE_STACKS" => "0" }.freeze
      # Tells the second start which variables the first one set, comma-separated. The second start
      # restores the environment that the first one found.
      MARK = "NB_STACKS"
      private_constant :SIZES, :RETURN, :MARK

      # Returns in the second start, or if the user has set a size.
      #
      # @yieldreturn [Hash{String=>String}] further variables for the second start
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
