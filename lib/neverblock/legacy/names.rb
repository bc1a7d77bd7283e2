# frozen_string_literal: true

require_relative "../errors"

# Everything NeverBlock offered from 2008 to 2012, by its old names. Loading this file defines a few
# one-line methods and patches nothing; the rest is loaded when it is first used. The old doors
# (`require "never_block"` and so on) do two more things, see legacy/all.rb.
module NB
  autoload :Pool, "neverblock/legacy/pool"
  autoload :DB, "neverblock/legacy/db"

  # The errors of the pools of 2008.
  class NBError < ::StandardError
    include Error
  end

  # The old names that are methods of {NB}, and the classes behind the others.
  module Legacy
    autoload :Locals, "neverblock/legacy/locals"
    autoload :CarriedFiber, "neverblock/legacy/carried_fiber"
    autoload :Hand, "neverblock/legacy/hand"
    autoload :PostgresCommands, "neverblock/legacy/postgres_commands"
    autoload :Transactions, "neverblock/legacy/transactions"
    autoload :Reactor, "neverblock/legacy/reactor"

    # Loads NB::Fiber when outside code asks for it. An autoload would also catch every `Fiber`
    # inside `module NB`, which means Ruby's own.
    # @api private
    def const_missing(name)
      return super unless name == :Fiber

      require_relative "fiber"
      NB::Fiber
    end

    # @return [Boolean] whether other fibers run while this one waits; in a pool of 2008 also
    #   without a loop, if waiting code calls Fiber.yield
    # @scheduling never waits
    def neverblocking?
      fiber = ::Fiber.current
      return false if fiber.blocking?

      flag = Locals.of(fiber)[:neverblock]
      flag.nil? ? event_loop_available? : flag
    end

    # @return [Boolean] whether this thread has a loop
    # @scheduling never waits
    def event_loop_available? = !::Fiber.scheduler.nil?

    # Runs the block with waits that let other fibers run, or with waits that stop the thread.
    # Afterwards the previous state returns, whatever the block did.
    #
    # @param nonblocking [Boolean] false: the whole thread waits, as in {NB.blocking}
    # @yield in the current fiber, or in one made for it
    # @return the block's value
    # @scheduling may wait
    def neverblock(nonblocking = true, &block)
      return NB.blocking(&block) unless nonblocking
      return yield unless ::Fiber.scheduler && ::Fiber.current.blocking?

      fiber = ::Fiber.new(blocking: false, &block)
      value = fiber.resume
      value = fiber.resume(::Fiber.yield(value)) while fiber.alive?
      value
    end

    # @return [Reactor] of this thread
    # @scheduling never waits
    def reactor
      thread = Thread.current
      thread.thread_variable_get(:neverblock_reactor) ||
        Reactor.new.tap { |mine| thread.thread_variable_set(:neverblock_reactor, mine) }
    end

    # Waits until the io is ready.
    #
    # @param mode [Symbol] :read or :write
    # @param io [IO]
    # @return [IO] the same
    # @raise [ArgumentError] for another mode
    # @scheduling may wait
    def wait(mode, io)
      case mode
      when :read then io.wait_readable
      when :write then io.wait_writable
      else raise ArgumentError, "mode must be :read or :write, got: #{mode.inspect}"
      end
      io
    end

    # Lets other fibers run for this long.
    #
    # @param seconds [Numeric, nil] 0 or less: one turn; nil: until somebody wakes this fiber
    # @return [Integer] the same as Kernel#sleep
    # @scheduling always waits
    def sleep(seconds = nil) = seconds ? Kernel.sleep([seconds, 0].max) : Kernel.sleep

    # Lets the other ready fibers run, then continues.
    #
    # @return [Integer] the same as Kernel#sleep
    # @scheduling may wait
    def yield = Kernel.sleep(0)

    # Calls a method of an object on a native thread, as the old File methods did.
    #
    # @param io [Object]
    # @param method [Symbol]
    # @param arguments [Array]
    # @return what the method returned
    # @raise what the method raised
    # @scheduling always waits
    # @thread any
    def defer(io, method, arguments = [])
      NB.offload { io.public_send(method, *arguments) }
    end
  end
  extend Legacy
end
