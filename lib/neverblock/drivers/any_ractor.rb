# frozen_string_literal: true

require_relative "../loop/repairs"

module NB
  module Drivers
    # Extends the module of a cure whose methods programs also call in other Ractors. Those have no
    # loop, and may not see the driver.
    #
    # @example
    #   Curb.extend(AnyRactor)
    #   Curb.driver = driver
    #   Curb.in_loop? # in a method of the library
    module AnyRactor
      # @return [Driver] of the cure
      # @api private
      attr_writer :driver

      # @return [Boolean] whether the cure is in force and a loop runs the caller
      # @scheduling never waits
      # @thread any
      # @api private
      def in_loop? = Repairs.main? && @driver.in_loop?
    end
  end
end
