# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "loop_fiber"
require_relative "registry"

module NB
  module Drivers
    # Some libraries keep what belongs to a request in variables of the thread
    # (`Thread.current.thread_variable_set`), which all requests of a loop would share:
    # ActiveResource its headers, user, token and site, Mongoid its scopes, sessions and databases.
    # They name `Thread` without a scope: with this cure, ours is found first, inside their module.
    # There a fiber of the loop is a thread with variables of its own. Those of {NB.gather},
    # {NB.async} and the like begin with copies.
    module ThreadVariables
      # The fiber's instance variable with its {Variables}.
      VARIABLES = :@neverblock_thread_variables
      private_constant :VARIABLES

      # What a library takes for a thread: the variables of a fiber.
      class Variables
        # Mongoid 9.1 has one variable: a Hash, in which scopes are in another one, by their class.
        LEVELS = 3
        private_constant :LEVELS

        # @param values [Hash{Symbol => Object}]
        def initialize(values = {}) = @values = values

        # Works like Thread's own method.
        # @api private
        def thread_variable_get(name) = @values[name.to_sym]

        # Works like Thread's own method.
        # @api private
        def thread_variable_set(name, value) = @values[name.to_sym] = value

        # Works like Thread's own method.
        # @api private
        def thread_variable?(name) = @values.key?(name.to_sym)

        # @return [Variables] for another fiber
        # @api private
        def copy = Variables.new(copied(@values, LEVELS))

        private

        def copied(value, levels)
          case value
          when Array then value.dup
          when Hash then levels.zero? ? value : copied_hash(value, levels - 1)
          else value
          end
        end

        def copied_hash(hash, levels)
          hash.dup.transform_values! { |value| copied(value, levels) }
        end
      end

      # What a library takes for Thread.
      class Threads
        # @param driver [Driver] of the library
        def initialize(driver) = @driver = driver

        # @return [Variables, Thread]
        # @api private
        def current = (ThreadVariables.current if @driver.on?) || ::Thread.current

        # @return [Thread]
        # @api private
        def main = ::Thread.main
      end

      # Prepended to the singleton class of Mongoid::Config. From 9.1 on, Mongoid follows Rails'
      # isolation, which is :fiber with NeverBlock. But on Ruby before 3.2 it refuses that, and its
      # own copies for a new fiber share what is in them.
      class Isolation < Module
        # @param driver [Driver] of Mongoid
        def initialize(driver)
          super()
          define_method(:real_isolation_level) do
            ours = RUBY_VERSION < "3.2" || (driver.on? && LoopFiber.current)
            ours && isolation_level == :rails ? :thread : super()
          end
        end
      end

      class << self
        # Applies the cure.
        #
        # @param library [Module] whose code names Thread
        # @api private
        def install(driver, library)
          library.const_set(:Thread, Threads.new(driver))
          library.private_constant(:Thread)
          Inheritance.add { capture } unless @added
          @added = true
        end

        # @return [Variables, nil] of the loop's fiber; nil: the thread's own are used
        # @api private
        def current
          fiber = LoopFiber.current or return
          fiber.instance_variable_get(VARIABLES) ||
            fiber.instance_variable_set(VARIABLES, Variables.new)
        end

        private

        def capture
          variables = LoopFiber.current&.instance_variable_get(VARIABLES)&.copy or return
          lambda do |block|
            LoopFiber.current&.instance_variable_set(VARIABLES, variables)
            block.call
          end
        end
      end
    end

    register("activeresource", features: %w[active_resource active_resource/base activeresource],
                               constant: "ActiveResource::Base",
                               version: "ActiveResource::VERSION::STRING",
                               versions: [">= 5.1", "< 7"]) do |driver|
      ThreadVariables.install(driver, ::ThreadsafeAttributes)
    end

    # Before 9.0.3, when it got this method, it keeps these in locals of the fiber.
    register("mongoid", constant: "Mongoid::Threaded", version: "Mongoid::VERSION",
                        versions: "< 10") do |driver|
      next unless ::Mongoid::Threaded.respond_to?(:get)

      ThreadVariables.install(driver, ::Mongoid::Threaded)
      ::Mongoid::Config.singleton_class.prepend(ThreadVariables::Isolation.new(driver))
    end
  end
end
