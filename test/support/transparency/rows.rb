# frozen_string_literal: true

require "fileutils"
require "json"

# What one library's tests measure, and what of it is written down: test/drivers/results/NAME.json,
# by Ruby. NB_RESULTS=1 writes; otherwise it is compared with what the tests declare.
class Rows
  FOLDER = File.expand_path("../../drivers/results", __dir__)
  RUBY = RUBY_VERSION[/\d+\.\d+/]

  # One operation: what is declared, and what has been measured.
  Row = Struct.new(:operation, :kind, :how, :count, :delay_ms, :took_ms, :late_ms, :computed_ms,
                   keyword_init: true) do
    def done(measure)
      self.count = measure.count
      self.delay_ms = (measure.delay * 1000).round
      self.took_ms = (measure.took * 1000).round
      self.late_ms = measure.late_ms
      self.computed_ms = measure.computed_ms
    end
  end

  attr_reader :name, :cure, :faults

  def initialize(name, group:, gems:, against:, cure:)
    @name = name
    @group = group
    @gems = gems
    @against = against
    @cure = cure
    @rows = []
    @faults = []
    Minitest.after_run { write } if ENV["NB_RESULTS"]
  end

  def add(operation, **facts) = Row.new(operation: operation, **facts).tap { |row| @rows << row }

  # How the results that are written down differ from these tests. The page says which versions it
  # measured; a release since then changes nothing as long as every row passes.
  # @return [Array<String>]
  def stale
    return [] if ENV["NB_RESULTS"]

    written = read[RUBY] or return ["nothing is written down about #{@name} on Ruby #{RUBY}"]
    mine = JSON.parse(JSON.generate(measured))
    %w[rows faults].filter_map do |what|
      here, there = [mine, written].map { |side| comparable(side[what]) }
      "#{what}: here #{here.inspect}, written #{there.inspect}" unless here == there
    end
  end

  # @return [Boolean] whether the results of any library are written down for this Ruby
  def of_this_ruby?
    Dir["#{FOLDER}/*.json"].any? { |file| JSON.parse(File.read(file)).key?(RUBY) }
  end

  private

  # Rows without what is measured.
  def comparable(facts)
    facts.map { |fact| fact.is_a?(Hash) ? fact.slice("operation", "kind", "how") : fact }
  end

  def versions
    @gems.to_h do |gem|
      spec = Gem.loaded_specs[gem] || Gem::Specification.find_by_name(gem)
      [gem, spec.version.to_s]
    end
  end

  def path = File.join(FOLDER, "#{@name.gsub(%r{[^\w.-]+}, "-")}.json")
  def read = File.exist?(path) ? JSON.parse(File.read(path)) : {}

  def write
    missing = @rows.reject(&:took_ms)
    return warn("#{@name}: not written: #{missing.map(&:operation).join(", ")}") if missing.any?

    FileUtils.mkdir_p(FOLDER)
    File.write(path, "#{JSON.pretty_generate(read.merge(RUBY => measured).sort.to_h)}\n")
  end

  def measured
    { group: @group, ruby: RUBY_VERSION, date: Time.now.utc.strftime("%Y-%m-%d"),
      versions: versions, against: @against&.call, rows: @rows.map(&:to_h), faults: @faults }
  end
end
