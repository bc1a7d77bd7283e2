# frozen_string_literal: true

module Bench
  # A finished table: rows of figures under named columns. The only thing that reports read.
  #
  # @!attribute id [String] "A5"
  # @!attribute title [String]
  # @!attribute unit [String]
  # @!attribute better [Symbol] :higher or :lower
  # @!attribute column_title [String] what the columns count ("server delay")
  # @!attribute columns [Array<String>] column labels
  # @!attribute positions [Array<Numeric, nil>] numeric place of each column, for line charts
  # @!attribute rows [Array<Grid::Row>]
  # @!attribute comparisons [Array<Grid::Versus>] subject against every other row; may be empty
  # @!attribute words [Hash{Symbol => String}] verdicts that are called something else
  # @!attribute headline [Array<Integer>] which columns a summary shows
  # @!attribute chart [Hash] :kind (:bars, :lines), :scale (:linear, :log, :each), :spread (:even,
  #   :log)
  Grid = Struct.new(:id, :title, :unit, :better, :column_title, :columns, :positions, :rows,
                    :comparisons, :chart, :words, :headline, keyword_init: true) do
    # @return [Boolean] whether a summary shows any of it
    def headline? = headline.any?

    # @param verdict [Symbol] see {Estimate#verdict}
    # @return [String] what it is called for this number: memory is not faster, but less
    def word(verdict)
      verdict == :few ? "too few pairs" : words.fetch(verdict, verdict).to_s
    end

    # @return [Boolean] whether any measured figure is there
    def measured?
      rows.any? { |row| row.kind == :measured && row.figures.any? { |figure| figure&.value } }
    end

    # @return [Array<String>] every note of its figures, once, in order
    def notes
      rows.flat_map(&:figures).compact.flat_map(&:notes).uniq
    end

    # @return [Array<Grid::Versus>] comparisons of which anything can be said: too few pairs are
    #   noise
    def compared = comparisons.select { |one| one.estimates.compact.any?(&:enough?) }

    # @return [Integer] errors in all measured figures
    def errors
      rows.flat_map(&:figures).compact.sum { |figure| figure.errors.to_i }
    end
  end

  # @!attribute label [String]
  # @!attribute key [String] which colour: the runtime's id
  # @!attribute kind [Symbol] :measured, :published, :derived or :limit
  # @!attribute figures [Array<Figure, nil>] one per column; nil where not measured
  Grid::Row = Struct.new(:label, :key, :kind, :figures, keyword_init: true)

  # One rival beside the subject.
  #
  # @!attribute label [String] the rival
  # @!attribute subject [String]
  # @!attribute again [Boolean] whether this is the subject against itself, the noise floor
  # @!attribute estimates [Array<Estimate, nil>] one per column
  # @!attribute verdicts [Array<Symbol, nil>] one per column
  Grid::Versus = Struct.new(:label, :subject, :again, :estimates, :verdicts, keyword_init: true)
end
