# frozen_string_literal: true

module NB
  module Rails
    # Ruby before 3.2 has no fiber storage, so I18n (1.15) keeps the locale in a thread variable,
    # and one request would answer in the language of another. Here it belongs to the fiber.
    module Locale
      # In front of I18n's own, which goes on outside of a loop.
      module PerFiber
        # @return [I18n::Config] of this fiber
        # @api private
        def config
          holder = Locale.holder or return super
          holder.instance_variable_get(:@i18n_config) || (self.config = ::I18n::Config.new)
        end

        # Sets it for this fiber.
        # @api private
        def config=(value)
          holder = Locale.holder or return super
          holder.instance_variable_set(:@i18n_config, value)
        end

        # @return [I18n::Config] of this fiber, not frozen
        # @api private
        def writable_config = config.frozen? ? self.config = config.dup : config
      end

      # @return [Fiber, nil] whose locale it is: that which the loop runs, also in the fiber of an
      #   Enumerator
      # @api private
      def self.holder
        scheduler = Fiber.scheduler
        scheduler.current if scheduler.is_a?(Scheduler)
      end

      # @return [void]
      # @scheduling never waits
      def self.install
        ::I18n.singleton_class.prepend(PerFiber) unless Fiber.respond_to?(:[])
      end
    end
  end
end
