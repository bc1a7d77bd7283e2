# frozen_string_literal: true

require "json"

# docs/TRANSPARENCY.md from what the tests of drivers have measured (test/drivers/results/*.json).
class TransparencyPage
  RESULTS = "test/drivers/results/*.json"
  PATH = "docs/TRANSPARENCY.md"
  HEAD = <<~MARKDOWN
    # What waits, and what blocks

    Libraries that people already use, as they come, in 50 fibers of one thread, against real
    servers. A row is one operation that takes the server 100 ms (or what the row says). **It waits**
    when all 50 together end at most 100 ms after one alone would, while a ticker that wakes every
    5 ms beside them is never more than 10 ms late: a number says what they took, the next how late
    the ticker was at most. **It blocks** where the loop stands still; then the last column has the
    reason, and what to use instead.

    Names are answered 300 ms late in the rows that say so. Errors are compared with what the same
    code raises without a loop: class and message. Time for which the machine took the CPU away is
    taken off, from the ticker's lateness also that of collecting garbage. A cure is applied by itself when
    NeverBlock and the library are both loaded; `NB_DRIVERS` switches it off
    (`puts NB::Drivers.status` lists them).

    This page is written by `rake transparency` from what `test/drivers` measures; a test fails when
    it says something else than the tests do.
  MARKDOWN

  def initialize(files = Dir[RESULTS])
    @libraries = files.sort.map do |file|
      [File.basename(file, ".json"), JSON.parse(File.read(file))]
    end
  end

  def write = File.write(PATH, to_s)

  def to_s
    groups = @libraries.group_by { |_, rubies| rubies.values.last.fetch("group") }.sort
    [HEAD, *groups.map { |name, libraries| group(name, libraries) }, foot].join("\n")
  end

  private

  def group(name, libraries)
    lines = libraries.flat_map { |library, rubies| rows(library, rubies) }
    <<~MARKDOWN
      ## #{name}

      | Library | Operation | Server takes | #{rubies.map { |ruby| "Ruby #{ruby}" }.join(" | ")} | How |
      |---|---|---|#{"---|" * rubies.size}---|
      #{lines.join("\n")}

      | Library | Version | Against | Errors as without a loop |
      |---|---|---|---|
      #{libraries.map { |library, found| about(library, found) }.join("\n")}
    MARKDOWN
  end

  # The operations of any Ruby, in order.
  def rows(library, found)
    operations = found.values.flat_map { |one| one["rows"].map { |row| row["operation"] } }.uniq
    operations.map do |operation|
      by_ruby = rubies.map do |ruby|
        found.dig(ruby, "rows")&.find { |row| row["operation"] == operation }
      end
      row = by_ruby.compact.last
      line(library, operation, "#{row["delay_ms"]} ms",
           *by_ruby.map { |one| one ? cell(one) : "—" }, row["how"] || "as it is")
    end
  end

  def cell(row)
    took = "#{row["took_ms"]} ms, #{row["late_ms"]} late"
    took = "#{row["count"]}: #{took}" unless row["count"] == 50
    row["kind"] == "waits" ? took : "**blocks** #{took}"
  end

  def about(library, found)
    versions = rubies.filter_map { |ruby| found.dig(ruby, "versions") }.map do |gems|
      gems.map { |gem, version| gem == library ? version : "#{gem} #{version}" }.join(", ")
    end
    faults = found.values.flat_map { |one| one["faults"] }.uniq
    against = found.values.last["against"]
    line(library, versions.uniq.join("; "), against, faults.join(", "))
  end

  def line(*cells) = "| #{cells.join(" | ")} |"
  def rubies = @rubies ||= @libraries.flat_map { |_, found| found.keys }.uniq.sort

  def foot
    found = @libraries.flat_map { |_, by_ruby| by_ruby.values }
    dates = found.map { |one| one["date"] }.minmax.uniq.join(" to ")
    "Measured #{dates}, on Ruby #{found.map { |one| one["ruby"] }.uniq.sort.join(" and ")}.\n"
  end
end
