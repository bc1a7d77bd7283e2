# frozen_string_literal: true

require "eventmachine"
require_relative "../neverblock"

module NB
  # EventMachine and NeverBlock in one thread. After `require "neverblock/eventmachine"` fibers run
  # inside `EM.run`: NB.async and the pools start them, they wait for whatever Ruby code waits for,
  # and for EventMachine's callbacks with {NB.await}; meanwhile the reactor turns.
  #
  # Our loop is EventMachine's guest: the reactor sleeps for both and watches our one fd, so fibers
  # run between its callbacks, and all that they ask of it is done before it sleeps again. A
  # callback itself must not wait, as before; what it starts with NB.async may.
  #
  # When the reactor stops, fibers that still run are cancelled, before EM.run returns or raises. In
  # `NB.run { EM.run { } }` they belong to NB.run, and go on.
  #
  # The one patch of EventMachine is this module, prepended to its singleton class, for `run` alone.
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
    # Gives our fibers their turns.
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

    # As EventMachine.run, with a loop of ours in the same thread. Where another scheduler is there,
    # or the reactor runs already, it is EventMachine's alone.
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

    # The reactor does not turn any more, but is still there. (EventMachine calls the tails of the
    # parent in a forked reactor too: there is nothing of ours to end then.)
    def leave(scheduler, outlives, tail)
      scheduler.end_as_guest
      scheduler.cancel_all unless outlives
    ensure
      tail&.call
    end
  end
  ::EventMachine.singleton_class.prepend(EventMachineRun)
end
