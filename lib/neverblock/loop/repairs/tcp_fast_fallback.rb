# frozen_string_literal: true

require "socket"

# TCPSocket.new and Socket.tcp by host name. Since Ruby 3.4 Happy Eyeballs waits for names and
# connections in rb_thread_fd_select or in threads of its own: no hook is called and the whole
# thread stops (Bug #21270). Without fast fallback the hooks are called as before.
module NB
  module Repairs
    repair(TCPSocket, :initialize) do |original|
      proc do |*arguments, **options, &block|
        next __send__(original, *arguments, **options, &block) unless Repairs.loop_here

        begin
          __send__(original, *arguments, fast_fallback: false, **options, &block)
        rescue Socket::ResolutionError => error
          fast = options.fetch(:fast_fallback, true)
          error.message.sub!("getaddrinfo: ", "getaddrinfo(3): ") if fast && !error.message.frozen?
          raise
        end
      end
    end

    repair(Socket.singleton_class, :tcp_fast_fallback) do |original|
      proc { Repairs.loop_here ? false : __send__(original) }
    end
  end
end
