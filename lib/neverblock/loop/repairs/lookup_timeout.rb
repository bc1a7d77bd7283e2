# frozen_string_literal: true

require "socket"

# Addrinfo.getaddrinfo with a timeout, which Addrinfo.foreach and Socket.tcp pass on. From Ruby 4.0
# on it ends the lookup of a name with IO::TimeoutError. Under a scheduler Ruby asks a hook for the
# addresses, and tells it of no timeout.
module NB
  module Repairs
    repair(Addrinfo.singleton_class, :getaddrinfo) do |original|
      proc do |host, service, *rest, **options|
        call = -> { __send__(original, host, service, *rest, **options) }
        patience = options[:timeout]
        next call.call unless patience && Repairs.loop_here && Repairs.name?(host)
        raise ArgumentError, "timeout must not be negative" if patience.negative?

        late = IO::TimeoutError.new("user specified timeout for #{host} port #{service}")
        raise late if patience.zero?

        Repairs.loop_here.timeout_after(patience, late) { call.call }
      end
    end
  end
end
