# frozen_string_literal: true

require_relative "registry"
require_relative "../loop/repairs"

# Google's libraries ask the metadata server of their machine (for access tokens, the project)
# through google-cloud-env, which lets the first who asks compute a value while the others wait. It
# takes whoever asks in the same thread for the one who computes: all fibers but the first got a
# ThreadError ("deadlock"). In a loop it is the fiber that counts.
module NB
  module Drivers
    # Prepended to Google::Cloud::Env::LazyValue. All methods are called with its lock held.
    module GoogleValues
      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          ::Google::Cloud::Env::LazyValue.prepend(self)
        end

        # @return [Fiber, nil] the one that the loop runs, if any
        # @api private
        def fiber
          scheduler = Repairs.loop_here
          (scheduler.current || Fiber.current) if scheduler && @driver.on?
        end
      end

      private

      # Works like the library's own method.
      def enter_compute(*)
        super
        @computing_thread = GoogleValues.fiber || @computing_thread
      end

      # Works like the library's own method, which raises if it is the caller who computes.
      def wait_compute
        fiber = @computing_thread if neverblock_mine?
        @computing_thread = Thread.current if fiber
        super
      ensure
        @computing_thread = fiber if fiber
      end

      # Works like the library's own method.
      def handle_success(*)
        @computing_thread = Thread.current if neverblock_mine?
        super
      end

      # Works like the library's own method.
      def handle_failure(*)
        @computing_thread = Thread.current if neverblock_mine?
        super
      end

      def neverblock_mine?
        @computing_thread.is_a?(Fiber) && @computing_thread.equal?(GoogleValues.fiber)
      end
    end
  end
end

NB::Drivers.register("google-cloud-env", constant: "Google::Cloud::Env::LazyValue",
                                         features: %w[google/cloud/env google-cloud-env],
                                         version: "Google::Cloud::Env::VERSION",
                                         versions: "~> 2.0") do |driver|
  NB::Drivers::GoogleValues.install(driver)
end
