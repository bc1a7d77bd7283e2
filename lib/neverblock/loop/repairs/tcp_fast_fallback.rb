# frozen_string_literal: true

require "socket"

# TCPSocket.new and Socket.tcp by host name. Since Ruby 3.4 Happy Eyeballs waits for names and
# connections in rb_thread_fd_select or in threads of its own: no hook is called and the whole
# thread stops (Bug #21270). Without fast fallback the hooks are called as before.
module NB
  module Repairs
    replace(TCPSocket, :initialize) do |original|
      proc do |*arguments, **options, &block|
        next original.bind_call(self, *arguments, **options, &block) unless Repairs.loop_here

        begin
          original.bind_call(self, *arguments, fast_fallback: false, **options, &block)
        rescue Socket::ResolutionError => error
          error.message.sub!("getaddrinfo: ", "getaddrinfo(3): ") if options.fetch(:fast_fallback,
true) &&
            !error.message.frozen?
          raise
        end
      end
    end

    replace(Socket.singleton_class, :tcp_fast_fallback) do |original|
      proc { Repairs.loop_here ? false : original.bind_call(self) }
    end
  end
end
