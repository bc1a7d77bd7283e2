# frozen_string_literal: true

require_relative "registry"
require_relative "../loop/repairs"

module NB
  module Drivers
    # Sequel lends connections to threads. In a loop that would mean: all fibers on one connection,
    # one in the other's transaction. Its own extension `fiber_concurrency` lends them to fibers;
    # here it is so within a loop, and elsewhere as it was.
    module Sequel
      # What Sequel keeps connections by.
      #
      # @return [Fiber, Thread]
      # @scheduling never waits
      def current = Repairs.loop_here && SEQUEL.on? ? Fiber.current : super
    end

    register("sequel", constant: "Sequel::Database", version: "Sequel::VERSION",
                       versions: "~> 5.25") do |driver|
      raise NoMethodError, "Sequel.current is missing" unless ::Sequel.respond_to?(:current)

      Sequel.const_set(:SEQUEL, driver)
      ::Sequel.extend(Sequel)
    end
  end
end
