# frozen_string_literal: true

require_relative "../native"

module NB
  # Holes of Ruby versions that no scheduler hook can close: each a file of this folder that says
  # the version, the bug and what it does. A repair replaces one method in place (the ancestors of
  # Ruby's classes stay as they are), and its replacement calls the original wherever no loop of
  # ours runs the caller. NB_REPAIRS=0 or `repairs: false` leaves Ruby untouched.
  module Repairs
    # File name and the first Ruby version that needs it, and the first that does not any more.
    ALL = [
      ["io_select", "3.1", "3.2"],
      ["autoload", "3.1", "3.2"],
      ["mutex_sleep", "3.1", nil],
      ["thread_join", "3.1", "3.3"],
      ["flock", "3.1", nil],
      ["sysread", "3.1", nil],
      ["io_pread", "3.3", "4.0"],
      ["io_close", "3.1", "4.0"],
      ["service_name", "3.1", nil],
      ["tcp_fast_fallback", "3.4", nil],
      ["fiber_raise", "3.1", nil],
      ["handle_interrupt", "3.1", nil]
    ].freeze

    @installed = []
    @lock = Thread::Mutex.new # two threads may make their first scheduler at the same time

    class << self
      # @return [Array<String>] what was loaded, by file name
      attr_reader :installed

      # Loads what the running Ruby needs, once per process.
      #
      # @return [void]
      def install
        return unless Native::REPAIRS_ALLOWED

        @lock.synchronize do
          ALL.each do |name, from, before|
            next if @installed.include?(name) || !needed?(from, before)

            require_relative "repairs/#{name}"
            @installed << name
          end
        end
      end

      # Replaces an instance method in place.
      #
      # @yield [original] its UnboundMethod; returns the new body as a lambda or proc
      # @api private
      def replace(owner, name)
        original = owner.instance_method(name)
        visibility = owner.private_method_defined?(name) ? :private : :public
        body = yield(original)
        owner.send(:alias_method, name, name) # keeps Ruby from warning about the redefinition
        owner.define_method(name, &body)
        owner.send(visibility, name)
      end

      # @return [NB::Scheduler, nil] the loop that runs the calling fiber
      # @api private
      def loop_here
        scheduler = Fiber.current_scheduler
        scheduler if scheduler.is_a?(Scheduler)
      end

      private

      def needed?(from, before)
        numbers = ->(version) { version.split(".").map(&:to_i) }
        current = numbers[RUBY_VERSION]
        (current <=> numbers[from]) >= 0 && (before.nil? || (current <=> numbers[before]).negative?)
      end
    end
  end
end
