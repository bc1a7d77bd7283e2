# frozen_string_literal: true

module NB
  module Puma
    # Calls the blocks of config/puma.rb that Puma's own pool would call. As there, their exceptions
    # are printed and affect nothing else.
    #
    # @api private
    class Hooks
      # @param options [#[]] of Puma
      # @param server [::Puma::Server, nil]
      def initialize(options, server)
        @options = options
        @server = server
      end

      # @return [Boolean] whether there are any
      def any?(name) = Array(@options[name]).any?

      # Calls `before_thread_start` or `before_thread_exit`.
      # @return [void]
      def call(name)
        Array(@options[name]).each do |hook|
          block(hook).call(*arguments(name))
        rescue Exception => error # rubocop:disable Lint/RescueException -- as Puma
          $stderr.write("WARNING #{name} hook failed with exception (#{error.class}) " \
                        "#{error.message}\n")
        end
      end

      # Calls the `out_of_band` blocks, up to the first one that raises.
      # @return [void]
      def call_out_of_band
        Array(@options[:out_of_band]).each { |hook| block(hook).call }
      rescue Exception => error # rubocop:disable Lint/RescueException -- as Puma
        $stderr.write("Exception calling out_of_band_hook: #{error.message} (#{error.class})\n")
      end

      private

      # A block in Puma 6, in a Hash from 7 on.
      def block(hook) = hook.is_a?(Hash) ? hook[:block] : hook

      # From Puma 8 on.
      def arguments(name)
        return [] unless name == :before_thread_start && defined?(::Puma::ServerPluginControl)

        [::Puma::ServerPluginControl.new(@server)]
      end
    end
  end
end
