# frozen_string_literal: true

require_relative "async_jobs"
require_relative "async_queries"
require_relative "deprecations"
require_relative "inheritance"
require_relative "inner_fibers"
require_relative "live"
require_relative "locale"
require_relative "old_names"
require_relative "share_lock"

module NB
  module Rails
    # The parts of Rails that still count threads, or start them. Each has its cure in a file of its
    # own, and can be left out by name: `config.neverblock.leave_out = [:share_lock]`. Outside a
    # loop, each cure leaves Rails' behaviour as it is.
    module Cures
      # The cures by name.
      ALL = { share_lock: ShareLock, locale: Locale, inner_fibers: InnerFibers,
              inheritance: Inheritance, async_queries: AsyncQueries, async_jobs: AsyncJobs,
              live: Live, deprecations: Deprecations, old_names: OldNames }.freeze

      @installed = []

      class << self
        # @return [Array<Symbol>] the cures in force
        attr_reader :installed

        # @param leave_out [Array<Symbol>]
        # @return [void]
        # @raise [ConfigurationError] for an unknown name
        # @scheduling never waits
        def install(leave_out)
          wrong = leave_out - ALL.keys
          raise ConfigurationError, "config.neverblock.leave_out: unknown cure " \
                                    "#{wrong.join(", ")}; known are #{ALL.keys.join(", ")}" if
            wrong.any?

          ALL.except(*leave_out, *@installed).each do |name, cure|
            cure.install
            @installed << name
          end
        end
      end
    end
  end
end
