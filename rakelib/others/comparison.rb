# frozen_string_literal: true

module Others
  # Compares two runs of a suite test by test, with the reasons that are known.
  class Comparison
    BAD = %w[failed hung ended missing].freeze
    MISSING = ["missing", ""].freeze
    # How the reason of a test begins that fails now and then, plain too: it need not show itself.
    NOW_AND_THEN = "now and then"
    # A test with another fate inside than plain.
    Difference = Struct.new(:test, :plain, :inside, :text, :reason)

    attr_reader :differences, :stale

    # @param plain [Hash{String => Array(String, String)}] fate and text of each test
    # @param inside [Hash{String => Array(String, String)}] the same
    # @param reasons [Hash{String => String}] of tests
    def initialize(plain, inside, reasons)
      @plain = plain
      @inside = inside
      @differences = (plain.keys | inside.keys).sort.filter_map { |test| compare(test, reasons) }
      constant = reasons.reject { |_, reason| reason.start_with?(NOW_AND_THEN) }
      @stale = constant.keys - @differences.map(&:test)
    end

    def unexplained = @differences.reject(&:reason)

    # @return [Boolean] whether each difference has a reason, and each reason a difference
    def green? = @plain.any? && unexplained.empty? && @stale.empty?

    def tests = @plain.size
    def plain_failures = failures(@plain)
    def inside_failures = failures(@inside)

    # @return [Array<String>] what is wrong, a line each
    def complaints
      lines = unexplained.map do |one|
        "#{one.test}: #{one.plain} plain, #{one.inside} inside, no reason listed. #{one.text}".strip
      end
      lines += @stale.map { |test| "#{test}: a reason is listed, but there is no difference" }
      @plain.empty? ? ["no test ran", *lines] : lines
    end

    private

    def failures(fates) = fates.values.count { |fate,| BAD.include?(fate) }

    def compare(test, reasons)
      plain, = @plain.fetch(test, MISSING)
      inside, text = @inside.fetch(test, MISSING)
      return if plain == inside || [plain, inside].all? { |fate| BAD.first(3).include?(fate) }

      Difference.new(test, plain, inside, text.lines.first.to_s.strip, reasons[test])
    end
  end
end
