# frozen_string_literal: true

require "eventmachine"
require_relative "../neverblock"

module NB
  # EventMachine and NeverBlock in one thread. After `require "neverblock/eventmachine"`, fibers run
  # inside `EM.run`: NB.async and the pools start them. A fiber can wait for anything Ruby code
  # waits for, and with {NB.await} for EventMachine's callbacks; meanwhile the reactor turns.
  #
  # Our loop is EventMachine's guest: the reactor sleeps for both and watches our one fd. Fibers run
  # between its callbacks. Whatever a fiber asks of the reactor is done before the reactor sleeps
  # again. A callback itself must not wait; a fiber that it starts with NB.async may.
  #
  # When the reactor stops, it cancels running fibers before EM.run returns or raises. In `NB.run {
  # EM.run { } }` the fibers belong to NB.run and continue.
  #
  # One method of EventMachine is patched, `run`: this module is prepended to EventMachine's
  # singleton class.
  #
  # @example
  #   EM.run do
  #     NB.async do
  #       http = EM::HttpRequest.new("http://127.0.0.1:8080/").get
  #       NB.await { |resume| http.callback(&resume) }
  #       puts http.response, Net::HTTP.get(URI("http://127.0.0.1:8080/")) # either way
  #       EM.stop
  #     end
  #   end
  module EventMachineRun
    # Gives our fibers their turn.
    class Turns < ::EventMachine::Connection
      # @param scheduler [NB::Scheduler]
      # @api private
      def initialize(scheduler)
        super
        @scheduler = scheduler
      end

      # Called by the reactor.
      # @api private
      def notify_readable = @scheduler.turn_as_guest
    end
    private_constant :Turns

    # The same as EventMachine.run, with a loop of ours in the same thread. If the thread has
    # another scheduler, or the reactor already runs, this is EventMachine's own `run`.
    #
    # @return [void]
    # @raise what a callback raised, as without NeverBlock
    # @scheduling always waits
    def run(block = nil, tail = nil, &given)
      first = block || given
      here = ::Fiber.scheduler
      return super(first, tail) if running_here? || (here && !here.is_a?(Scheduler))

      scheduler = here || Scheduler.new
      NB.blocking do
        ::Fiber.set_scheduler(scheduler) unless here
        pid = Process.pid
        super(-> { attend(scheduler, first) },
              -> { leave(scheduler, here || pid != Process.pid, tail) })
      ensure
        scheduler.end_as_guest
        ::Fiber.set_scheduler(nil) unless here
      end
    end

    private

    def running_here? = reactor_running? && @reactor_pid == Process.pid

    def attend(scheduler, first)
      fd = scheduler.begin_as_guest
      turns = watch(IO.for_fd(fd, autoclose: false), Turns, scheduler)
      turns.notify_readable = true
      first&.call
    end

    # The reactor has stopped turning, but still exists. (In a forked reactor, EventMachine also
    # calls the parent's tails: there is nothing of ours to end then.)
    def leave(scheduler, outlives, tail)
      scheduler.end_as_guest
      scheduler.cancel_all unless outlives
    ensure
      tail&.call
    end
  end
  ::EventMachine.singleton_class.prepend(EventMachineRun)
end
