# frozen_string_literal: true

require_relative "../errors"
require_relative "../loop/repairs"

module NB
  module Drivers
    # One cure: what a foreign library needs to wait in the loop, and whether it is in force. It is
    # applied once, as soon as the library is loaded.
    class Driver
      # One row of {Drivers.status}.
      Status = Struct.new(:name, :state, :version, :reason) do
        # @return [String]
        def to_s = [name, version, state, reason && "(#{reason})"].compact.join(" ")
      end

      # @return [String]
      attr_reader :name
      # @return [Array<String>] what a program requires to load the library
      attr_reader :features

      # @api private
      def initialize(name, constant:, features:, version:, versions:, &cure)
        @name = name
        @constant = constant
        @features = features
        @version = version
        @versions = versions
        @cure = cure
        @state = :"not loaded"
        @lock = Thread::Mutex.new
      end

      # Applies the cure, if the library is loaded and nothing has been decided yet.
      #
      # @return [void]
      # @thread any
      def install
        return unless @state == :"not loaded" && Driver.find(@constant)

        apply if @lock.synchronize { @state == :"not loaded" && @state = :on }
      end

      # Whether the cure is in force. A cure asks this where the check costs almost nothing, so
      # {Drivers.off} works later, too.
      #
      # @return [Boolean]
      # @scheduling never waits
      # @thread any
      def on? = @state == :on

      # @return [Boolean] whether the cure is in force and a loop runs the caller
      # @scheduling never waits
      # @thread any
      # @api private
      def in_loop? = on? && !Repairs.loop_here.nil?

      # Leaves the library as it is, from now on.
      #
      # @param reason [String]
      # @return [void]
      # @thread any
      def off(reason = "NB::Drivers.off")
        @state = :off
        @reason = reason
      end

      # Tells the user something on stderr, once per process.
      #
      # @param text [String] the problem, and what to do about it
      # @return [void]
      # @thread any
      def notice(text)
        @told ||= {}
        return if @told[text]

        @told[text] = true
        warn("neverblock: #{@name}: #{text}")
      end

      # @return [Status] with state `:on`, `:off`, `:"not loaded"` or `:unsupported`
      # @scheduling never waits
      # @thread any
      def status = Status.new(@name, @state, version&.to_s, @reason)

      # @param version [String, nil] of the library; nil: it is not known
      # @return [Status] what to expect where this version is loaded
      # @api private
      def status_with(version)
        return Status.new(@name, @state, version, @reason) if @state == :off

        known = version && @version
        fits = !known || requirement.satisfied_by?(Gem::Version.new(version))
        Status.new(@name, fits ? :on : :unsupported, version, fits ? nil : untested(version))
      end

      # The constant of that name, if it is defined, without loading anything.
      #
      # @param path [String] such as "Mysql2::Client"
      # @return [Object, nil]
      # @api private
      def self.find(path)
        path.split("::").inject(Object) do |scope, name|
          return nil unless scope.const_defined?(name, scope.equal?(Object))
          return nil if scope.autoload?(name)

          scope.const_get(name)
        end
      end

      private

      def apply
        return unsupported unless version.nil? || requirement.satisfied_by?(version)

        @cure.call(self)
      rescue StandardError => error # without the cure, the library works as it does without us
        refuse("the cure failed: #{error.message} (#{error.class}, #{error.backtrace.first})")
      end

      def unsupported
        refuse(untested(version))
      end

      def untested(version)
        "version #{version} is not one of #{requirement}, which the cure was tested with"
      end

      def refuse(reason)
        @reason = reason
        @state = :unsupported
        notice("left as it is, so in a loop it may block other fibers or mix up what they share: " \
               "#{reason}")
      end

      # Ruby may run without RubyGems: then no version is known.
      def requirement = Gem::Requirement.new(@versions)

      def version
        found = @version && Driver.find(@version)
        Gem::Version.new(found.to_s) if found && defined?(::Gem)
      end
    end
  end
end
