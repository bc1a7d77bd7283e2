# frozen_string_literal: true

require_relative "../native"

module NB
  # Repairs of defects in Ruby versions that no scheduler hook can mend. Each is a file in this
  # folder that names the versions and the bug, and says what it does. A repair replaces one method
  # in place, so the ancestors of Ruby's classes stay as they are. Its replacement calls the
  # original wherever no loop of ours runs the caller. NB_REPAIRS=0 or `repairs: false` leaves Ruby
  # untouched.
  module Repairs
    # File name, the first Ruby version that needs the repair, and the first that does not need it
    # any more.
    ALL = [
      ["io_select", "3.1", "3.2"],
      ["require_monitor", "3.1", "3.2"],
      ["autoload", "3.1", "3.2"],
      ["mutex_sleep", "3.1", nil],
      ["mutex_unlock", "3.1", "3.2"],
      ["mutex_end", "3.1", "4.1"],
      ["condition_variable", "4.0", nil],
      ["thread_join", "3.1", "3.3"],
      ["thread_wakeup", "3.1", nil],
      ["thread_stop", "3.1", nil],
      ["thread_pass", "3.1", nil],
      ["timeout_class", "3.1", nil],
      ["process_wait", "3.1", nil],
      ["flock", "3.1", nil],
      ["dir_chdir", "3.1", nil],
      ["sysread", "3.1", nil],
      ["joined_writes", "3.1", nil],
      ["io_buffer_pwrite", "3.1", "3.2"],
      ["io_pread", "3.3", "4.0"],
      ["copy_stream", "3.1", nil],
      ["io_close", "3.1", "4.0"],
      ["io_close_read", "4.0", nil],
      ["io_reopen", "3.1", nil],
      ["eager_sockets", "3.1", nil],
      ["service_name", "3.1", nil],
      ["tcp_fast_fallback", "3.4", nil],
      ["numeric_names", "3.3", nil],
      ["lookup_timeout", "4.0", nil],
      ["fiber_transfer", "3.1", nil],
      ["fiber_raise", "3.1", nil],
      ["handle_interrupt", "3.1", nil]
    ].freeze

    # The Ractor in which loops run. In other Ractors no function of the C half may be called, and
    # only shareable Ruby objects may be used.
    MAIN = Ractor.current
    private_constant :MAIN

    @installed = []
    @kept = 0
    @lock = Thread::Mutex.new # two threads may make their first scheduler at the same time

    class << self
      # @return [Array<String>] the loaded repairs, by file name
      attr_reader :installed

      # Loads the repairs that the running Ruby needs, once per process.
      #
      # @return [void]
      def install
        return unless allowed?

        @lock.synchronize do
          ALL.each do |name, from, before|
            next if @installed.include?(name) || !needed?(from, before)

            require_relative "repairs/#{name}"
            @installed << name
          end
        end
      end

      # @return [Boolean] whether NB_REPAIRS lets them be installed
      # @raise [ArgumentError] if NB_REPAIRS is neither 0 nor 1
      # @api private
      def allowed?
        return Native::REPAIRS == "1" if %w[0 1].include?(Native::REPAIRS)

        raise ArgumentError, "NB_REPAIRS: must be 1 (repair Ruby's defects) or 0 (leave them), " \
                             "got: #{Native::REPAIRS.inspect}"
      end

      # Replaces an instance method of a library in place.
      #
      # @yield [original] its UnboundMethod; returns the new body as a lambda or proc
      # @api private
      def replace(owner, name)
        define(owner, name, &yield(own_method(owner, name)))
      end

      # Replaces an instance method in place, in every Ractor: one of Ruby's own, or of a library
      # that works in any Ractor.
      #
      # A method in C keeps its arity and parameters.
      #
      # @yield [original] the name under which it remains; returns the new body as a lambda or proc
      #   that refers only to shareable objects
      # @api private
      def repair(owner, name)
        original = :"#{name}_without_neverblock#{@kept += 1}"
        body = Ractor.make_shareable(yield(original))
        keep(owner, original, name)
        define(owner, name, &body)
      end

      # Keeps one of the owner's own methods under another, private name.
      #
      # @return [void]
      # @api private
      def keep(owner, original, name)
        owner.define_method(original, own_method(owner, name))
        owner.send(:private, original)
      end

      # @return [Boolean] whether loops run in this Ractor
      # @api private
      def main? = Ractor.current.equal?(MAIN)

      # @return [NB::Scheduler, nil] the loop that runs the calling fiber
      # @api private
      def loop_here
        scheduler = Fiber.current_scheduler
        scheduler if scheduler.is_a?(Scheduler)
      end

      private

      # Skips methods that others have put in front: these call the replacement, by `super`.
      def own_method(owner, name)
        method = owner.instance_method(name)
        in_front = owner.ancestors.take_while { |ancestor| !ancestor.equal?(owner) }
        method = method.super_method while in_front.include?(method.owner)
        method
      end

      def define(owner, name, &body)
        visibility = owner.private_method_defined?(name) ? :private : :public
        owner.alias_method(name, name) # keeps Ruby from warning about the redefinition
        behind_c_method?(owner, name, &body) || owner.define_method(name, &body)
        owner.send(visibility, name)
      end

      # Programs look at a method's parameters to learn what it takes: a function in C keeps those
      # of one in C. There are not functions for every number of them.
      def behind_c_method?(owner, name, &body)
        parameters = owner.instance_method(name).parameters
        in_c = parameters.all?(&:one?) # only there they have no names
        return false unless in_c && (parameters + body.parameters).any?

        behind = :"#{name}_in_neverblock#{@kept += 1}"
        owner.define_method(behind, &body)
        owner.send(:private, behind)
        Native.c_method(owner, name, behind) || (owner.send(:remove_method, behind) && false)
      end

      def needed?(from, before)
        numbers = ->(version) { version.split(".").map(&:to_i) }
        current = numbers[RUBY_VERSION]
        (current <=> numbers[from]) >= 0 && (before.nil? || (current <=> numbers[before]).negative?)
      end
    end
  end
end
