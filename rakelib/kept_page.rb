# frozen_string_literal: true

require "json"

# A page in docs/ and the results behind it, both in git. A run replaces the results of what it ran
# and keeps the others.
#
# A subclass has the constants RESULTS (a path) and PAGE (a path), and the method #text.
class KeptPage
  # @param results [Hash{String => Hash}] by default those of the last runs
  def initialize(results = File.exist?(self.class::RESULTS) ? read : {})
    @results = results
  end

  # Writes the results and the page.
  def write
    results = JSON.pretty_generate(@results).gsub(/\[\s+\]/, "[]") # as newer versions of json do
    File.write(self.class::RESULTS, "#{results}\n")
    File.write(self.class::PAGE, text)
  end

  private

  def read = JSON.parse(File.read(self.class::RESULTS))
  def keep(name, result) = @results = @results.merge(name => result).sort.to_h
end
