# frozen_string_literal: true

module NB
  module CLI
    # A sentence of an old study, and whether today's numbers confirm it.
    #
    # @example
    #   NB::CLI::Finding.by_ratio("select is worse", 1.3, "1.3 and 1.0 s/GB").line
    #   # => "holds          select is worse (1.3 and 1.0 s/GB)"
    Finding = Struct.new(:text, :verdict, :figures, :ratio) do
      # @return [String] the name of its verdict
      # @scheduling never waits
      def word = Finding::VERDICTS.fetch(verdict)

      # @return [String] for a terminal
      # @scheduling never waits
      def line = format("%-14s %s%s", word, text, (" (#{figures})" unless figures.empty?))
    end

    class Finding
      # The names of the verdicts.
      VERDICTS = { holds: "holds", wrong: "does not hold", same: "no difference",
                   unmeasured: "not measured" }.freeze
      # Amounts that differ by less than this count as equal.
      NOISE = 0.05

      class << self
        # A finding that one amount is larger than another.
        #
        # @param text [String]
        # @param ratio [Float] of the first to the second
        # @param figures [String] what was measured
        # @return [Finding]
        # @scheduling never waits
        def by_ratio(text, ratio, figures)
          verdict = ratio > 1 ? :holds : :wrong
          verdict = :same if (ratio - 1).abs <= NOISE
          new(text, verdict, figures, ratio)
        end

        # @param text [String]
        # @return [Finding]
        # @scheduling never waits
        def unmeasured(text) = new(text, :unmeasured, "")
      end
    end
  end
end
