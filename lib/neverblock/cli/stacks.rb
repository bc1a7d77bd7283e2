# frozen_string_literal: true

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
      # @return [void]
      # @scheduling never waits
      def self.deepen
        return [*SIZES.keys, MARK].each { |name| ENV.delete(name) } if ENV.key?(MARK)
        return if SIZES.keys.any? { |name| ENV.key?(name) }

        exec(SIZES.merge(MARK => "1"), *command)
      rescue SystemCallError
        nil # the stacks stay as they are
      end

      # How this process was started, Ruby's own options included. Bundler writes a title over it
      # (Process.setproctitle); RUBYOPT has its options then.
      def self.command
        ruby = File.readlink("/proc/self/exe")
        program, *arguments = File.read("/proc/self/cmdline").split("\0", -1)[0..-2]
        known = arguments.last(ARGV.size + 1) == [$PROGRAM_NAME, *ARGV]
        return [[ruby, program], *arguments] if known

        yjit = defined?(RubyVM::YJIT.enabled?) && RubyVM::YJIT.enabled?
        [[ruby, ruby], *("--yjit" if yjit), $PROGRAM_NAME, *ARGV]
      end
      private_class_method :command
    end
  end
end
