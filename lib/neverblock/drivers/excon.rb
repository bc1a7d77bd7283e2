# frozen_string_literal: true

require_relative "registry"
require_relative "any_ractor"
require_relative "../loop/repairs"

# Excon keeps one socket per connection object and thread, so threads can share a persistent
# connection object. Fibers of one thread would share a socket, too, and read each other's answers.
# In a loop, each call of `request` or `requests` has a socket to itself, which afterwards waits for
# the next call, in whichever fiber. If a call fails or is left in the middle, its socket is closed,
# and with it each waiting socket that the server has closed: so after a restart of the server one
# call fails, as in a thread, not one for each waiting socket.
module NB
  module Drivers
    # What Excon::Connection does in a loop.
    module ExconSockets
      extend AnyRactor

      # What one call uses. `sockets`: what Excon keeps per thread. `pid`: a forked child must leave
      # its parent's sockets alone.
      Lease = Struct.new(:sockets, :pid)
      # The fiber's instance variable with its leases, by connection: nothing else refers to a fiber
      # that is left in the middle of a call and never ends, such as an Enumerator's.
      LEASES = :@neverblock_excon_leases
      private_constant :Lease, :LEASES

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          self.driver = driver
          ::Excon::Connection.prepend(self)
        end

        # @return [Hash, nil] of this fiber
        # @api private
        def leases = Fiber.current.instance_variable_get(LEASES)

        # @return [Hash] the same, made if needed
        # @api private
        def make_leases
          leases || Fiber.current.instance_variable_set(LEASES, {}.compare_by_identity)
        end
      end

      # Has a socket to itself.
      def request(...) = neverblock_lease { super }

      # Has a socket to itself.
      def requests(...) = neverblock_lease { super }

      # Outside a call, also closes the sockets that wait for the next one.
      def reset
        neverblock_idle.pop(neverblock_idle.size).each { |lease| neverblock_close(lease) } unless
          neverblock_leased
        super
      end

      private

      def sockets
        neverblock_leased&.sockets || super
      end

      def neverblock_leased
        lease = ExconSockets.leases&.[](self) or return
        lease.sockets, lease.pid = {}, Process.pid if lease.pid != Process.pid
        lease
      end

      # A call within a call (a retry, or one of `requests`) uses the same sockets.
      #
      # Excon before 1.11 resets a connection when a call begins while this variable is false: a
      # call was left in the middle. Here it only means that another fiber is in the middle of one.
      def neverblock_lease(&call)
        return yield unless ExconSockets.in_loop? && @data[:thread_safe_sockets]

        @persistent_socket_reusable = true
        return yield if neverblock_leased

        neverblock_call(ExconSockets.make_leases, &call)
      end

      def neverblock_call(leases)
        lease = leases[self] = neverblock_idle.pop || Lease.new({}, Process.pid)
        value = yield
        whole = true
        value
      ensure
        leases.delete(self)
        whole ? neverblock_keep(lease) : neverblock_drop(lease)
      end

      # Taken out first, because other fibers may run while it reads.
      def neverblock_drop(lease)
        neverblock_close(lease)
        idle = neverblock_idle.pop(neverblock_idle.size)
        quiet, dead = idle.partition { |one| neverblock_quiet?(one) }
        neverblock_idle.concat(quiet)
        dead.each { |one| neverblock_close(one) }
      end

      # Whether nothing unasked has arrived, such as the end of the stream.
      def neverblock_quiet?(lease)
        lease.sockets.each_value.all? do |socket|
          io = socket.instance_variable_get(:@socket)
          !io.closed? && io.read_nonblock(1, exception: false) == :wait_readable
        end
      rescue StandardError
        false
      end

      def neverblock_keep(lease)
        neverblock_idle.push(lease) unless lease.sockets.empty? || lease.pid != Process.pid
      end

      def neverblock_idle
        return @neverblock_idle if @neverblock_pid == Process.pid

        @neverblock_pid = Process.pid
        @neverblock_idle = []
      end

      def neverblock_close(lease)
        lease&.sockets&.each_value do |socket|
          socket.close
        rescue StandardError
          nil # as Excon does
        end
      end
    end
  end
end

NB::Drivers.register("excon", constant: "Excon::Connection", version: "Excon::VERSION",
                              versions: [">= 0.100", "< 2"]) do |driver|
  NB::Drivers::ExconSockets.install(driver)
end
