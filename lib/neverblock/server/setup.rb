# frozen_string_literal: true

require "socket"
require_relative "checks"
require_relative "errors"

module NB
  class Server
    # Turns a system error about the configuration into one sentence with the cure.
    #
    # @api private
    module Setup
      # What to do about each error.
      CURES = {
        Errno::EADDRINUSE => "another process listens there: end it, or choose another address",
        Errno::EACCES => "this user may not: choose a port from 1024 on, or another file",
        Errno::EADDRNOTAVAIL => "no interface has this address: 0.0.0.0 and [::] stand for all",
        Errno::ENOENT => "make the folder first",
        Errno::EISDIR => "that is a folder: name a file",
        Errno::EEXIST => "that is no socket: remove it, or choose another path",
        Errno::ENAMETOOLONG => "a socket's path has at most 108 bytes: choose a shorter one",
        Errno::EBADF => "nobody has handed over a listener under this number",
        Errno::ENOTSOCK => "hand over a stream socket that listens",
        SocketError => "give an address, or a name that this machine can look up"
      }.freeze
      private_constant :CURES

      # What a Rails application with NeverBlock switched off says.
      PER_THREAD = "Rails keeps its state per thread, so requests in fibers would share " \
                   "connections and Current: NeverBlock's part for Rails is switched off " \
                   "(config.neverblock.enabled, or NB_DRIVERS). Switch it on, or serve the " \
                   "application in threads"
      private_constant :PER_THREAD

      module_function

      # Called once the application is loaded.
      #
      # @return [void]
      # @raise [SetupError] for a Rails application whose requests would share their state
      def refuse_shared_state
        return unless defined?(::Rails.application) && ::Rails.application&.initialized?

        raise SetupError, PER_THREAD if
          ActiveSupport::IsolatedExecutionState.isolation_level == :thread
      end

      # @param app [#call] the application
      # @return [#call] the application
      # @raise [SetupError] if it cannot be called
      def callable(app)
        Checks.app(app)
      rescue ArgumentError => error
        raise SetupError, error.message
      end

      # @param what [String] what the block does, such as "cannot listen"
      # @return what the block does
      # @raise [SetupError]
      def step(what)
        yield
      rescue SystemCallError, SocketError => error
        cure = CURES.find { |kind, _| error.is_a?(kind) }&.last
        raise SetupError, ["#{what}: #{error.message}", cure].compact.join(": ")
      end
    end
  end
end
