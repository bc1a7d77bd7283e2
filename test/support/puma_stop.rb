# frozen_string_literal: true

# Part of Puma's configuration, so that TERM and INT end it on Ruby 3.2 to 3.4, too. There IO#close
# waits forever for a handler of trap that writes to the IO at that moment: to leave it takes a
# lock, which no handler may (thread.c, thread_io_wake_pending_closer). Puma's handler tells its
# server's thread by a pipe, which that thread then closes: beside others Puma 8.0.2 alone, on Ruby
# 3.4.5, did not end in 22 of 150 runs. So a thread tells it here.
require "puma"
require "puma/server"

if RUBY_VERSION >= "3.2" && RUBY_VERSION < "4"
  Puma::Server.prepend(
    Module.new do
      private

      def notify_safely(message) = Thread.new { super }.join
    end
  )
end
