# frozen_string_literal: true

require_relative "../sync/inheritance"

module NB
  module Rails
    # I18n 1.14.8 keeps the locale in a thread variable, and so does 1.15 on Ruby before 3.2, which
    # has no fiber storage: one request would answer in another's language. With this cure the
    # locale belongs to the fiber.
    module Locale
      # Prepended to I18n's own methods, which remain in use outside a loop.
      module PerFiber
        # @return [I18n::Config] of this fiber
        # @api private
        def config
          holder = Locale.holder or return super
          holder.instance_variable_get(:@i18n_config) || (self.config = ::I18n::Config.new)
        end

        # Sets the configuration of this fiber.
        # @api private
        def config=(value)
          holder = Locale.holder or return super
          holder.instance_variable_set(:@i18n_config, value)
        end

        # @return [I18n::Config] of this fiber, not frozen
        # @api private
        def writable_config = config.frozen? ? self.config = config.dup : config
      end

      # @return [Fiber, nil] the owner of the locale: the fiber that the loop runs, even from inside
      #   an Enumerator's fiber; nil: the thread
      # @api private
      def self.holder
        scheduler = Fiber.scheduler
        return unless scheduler.is_a?(Scheduler) && (@driver.nil? || @driver.on?)

        fiber = scheduler.current
        fiber unless fiber.equal?(scheduler.thread_fiber)
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        ::I18n.singleton_class.prepend(PerFiber) if shared?
      end

      # For I18n in a program without a Rails application.
      #
      # @param driver [Drivers::Driver]
      # @return [void]
      # @scheduling never waits
      def self.install_alone(driver)
        return unless shared?

        @driver = driver
        install
        NB::Inheritance.add { capture }
      end

      # @return [#call, nil] gives another fiber a copy
      # @api private
      def self.capture
        return unless @driver.on?

        config = copy(::I18n.config)
        lambda do |block|
          ::I18n.config = config
          block.call
        end
      end

      # @param config [I18n::Config]
      # @return [I18n::Config] what another fiber may change
      # @api private
      def self.copy(config) = (proxy?(config) ? config.original_config : config).dup

      # @return [Boolean] whether Rails has put it in the place of the request's own for the time of
      #   an action: it sets the locale there, and so does its copy
      # @api private
      def self.proxy?(config) = config.respond_to?(:original_config)

      # Whether one fiber sees what another sets.
      #
      # @return [Boolean]
      # @api private
      def self.shared?
        before = ::I18n.config
        Fiber.new { ::I18n.config = ::I18n::Config.new }.resume
        !::I18n.config.equal?(before)
      ensure
        ::I18n.config = before
      end
    end
  end
end
