# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "loop_fiber"
require_relative "registry"

module NB
  module Drivers
    # Chewy collects the records that a request changes, to index them at its end, in a variable of
    # the thread: in a loop, requests ended each other's collections, and searched within each
    # other's scopes. With this cure, these belong to the fiber, and the client to all. Fibers of
    # {NB.gather} and the like collect for the request that started them.
    module Chewy
      # A fiber keeps Chewy's state here.
      STATE = :@neverblock_chewy
      private_constant :STATE

      # Prepended to the singleton class of the gem's module.
      module PerFiber
        # Works like Chewy's own method.
        # @api private
        def current
          fiber = Chewy.fiber or return super
          fiber.instance_variable_get(STATE) || fiber.instance_variable_set(STATE, {})
        end

        # Works like Chewy's own method, with one client for all fibers.
        # @api private
        def client
          return super unless Chewy.fiber

          current[:chewy_client] ||= @neverblock_client ||= super
        end
      end

      # Prepended to the gem's class: a stack of strategies, each of which collects.
      module Copied
        # Copies the stack, too.
        #
        # @api private
        def initialize_copy(*)
          super
          @stack = @stack.dup
        end
      end

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          ::Chewy.singleton_class.prepend(PerFiber)
          ::Chewy::Strategy.prepend(Copied)
          Inheritance.add { capture }
        end

        # @return [Fiber, nil] the owner of the state; nil: the thread
        # @api private
        def fiber = (LoopFiber.current if @driver.on?)

        private

        def capture
          state = Inheritance.copies(::Chewy.current) if @driver.on?
          return if state.nil? || state.empty?

          strategy = state[:chewy_strategy]
          state[:chewy_strategy] = strategy.dup if strategy
          lambda do |block|
            ::Chewy.current.replace(state)
            block.call
          end
        end
      end
    end

    # Before 7.2.3, when it got this method, it keeps its state in locals of the fiber.
    register("chewy", constant: "Chewy::Strategy", version: "Chewy::VERSION",
                      versions: [">= 7", "< 9"]) do |driver|
      Chewy.install(driver) if ::Chewy.respond_to?(:current)
    end
  end
end
