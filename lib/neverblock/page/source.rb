# frozen_string_literal: true

require "json"
require_relative "../server/snapshot"

module NB
  class Page
    # Gets the page's snapshots from this process's server, from a cluster's master, or, under
    # another server, from the loop alone. Many viewers cost as much as one: an answer serves
    # everybody who asks for the same within half a second.
    #
    # @api private
    module Source
      # Seconds for which an answer is reused.
      FRESH = 0.5
      # Seconds that a master has to answer: it waits up to 4 for a worker that is asked for MOST.
      PATIENCE = 5
      # The maximum that a client may ask for here.
      MOST = {fibers: 2000, requests: 2000, frames: 100}.freeze
      private_constant :FRESH, :PATIENCE, :MOST

      @answers = {}
      @lock = Thread::Mutex.new

      class << self
        # @param server [Server, nil] the one that is asked
        # @param query [String] as {Server::Snapshot.detail} takes it
        # @return [String] JSON
        # @raise [ArgumentError]
        # @scheduling may wait
        # @thread any
        def json(server, query)
          detail = Server::Snapshot.detail(query)
          detail = detail.to_h { |name, value| [name, [value, MOST.fetch(name)].min] }
          @lock.synchronize do
            @answers.reject! { |_, (_, time)| time < now - FRESH }
            (@answers[[server, detail]] ||= [ask(server, detail), now]).first
          end
        end

        # In a forked child: the lock may be held by a fiber of the parent.
        # @return [void]
        def forked
          @lock = Thread::Mutex.new
          @answers = {}
        end

        private

        def ask(server, detail)
          query = detail.map { |pair| pair.join("=") }.join("&")
          server&.channel&.ask(query, within: PATIENCE) || own(server, detail)
        end

        # On a thread: it lets the loop run every few fibers.
        def own(server, detail)
          scheduler = Fiber.scheduler
          scheduler = nil unless scheduler.is_a?(Scheduler)
          Thread.new do
            snapshot = server ? server.snapshot(**detail) :
                                Server::Snapshot.new(nil, scheduler, **detail).to_h
            JSON.generate(snapshot)
          end.value
        end

        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      Fork.in_child { forked }
    end
  end
end
