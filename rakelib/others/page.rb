# frozen_string_literal: true

require_relative "../kept_page"

module Others
  # docs/OTHERS.md.
  class Page < KeptPage
    RESULTS = File.expand_path("results.json", __dir__)
    PAGE = File.expand_path("docs/OTHERS.md")
    HEAD = <<~TEXT
      # Other projects' own tests

      Do the test suites of Ruby and of popular gems pass inside the loop? Each suite, at a pinned version,
      runs twice: *plain*, in Ruby without NeverBlock, and *inside*, with each test in a fiber of NeverBlock's
      loop. A test with different results is a *difference*, and needs a reason in
      `rakelib/others/differences.txt`; the reasons are below the table. A test that fails both times is no
      difference. A test that hangs plain does not run inside. Some tests fail *now and then*, plain too.
      `rake others` runs the suites (`rake others[ruby-socket]` one of them), writes this page, and fails if a
      difference has no reason. The sources are Debian's packages or tags of the projects' repositories; tests
      of databases use real servers. From Active Record's suite, the tests of connections, transactions and
      threads run.

      | suite | version | Ruby | tests | plain failures | failures inside | differences |
      |---|---|---|---|---|---|---|
    TEXT

    # @param suite [Suite]
    # @param comparison [Comparison]
    def add(suite, comparison, ruby)
      keep("#{suite.name} #{ruby}", {
        "suite" => suite.name, "version" => suite.version, "ruby" => ruby,
        "tests" => comparison.tests, "plain" => comparison.plain_failures,
        "inside" => comparison.inside_failures,
        "differences" => comparison.differences.map { |one| [one.test, one.inside, one.reason] }
      })
    end

    def text
      rows = @results.values.map do |row|
        cells = row.values_at(*%w[suite version ruby tests plain inside])
        "| #{[*cells, row["differences"].size].join(" | ")} |\n"
      end
      HEAD + rows.join + reasons
    end

    private

    # Each reason once, with its tests.
    def reasons
      found = @results.values.flat_map do |row|
        row["differences"].map do |test, fate, reason|
          {reason: reason || "not known yet", test: test, fate: fate, **where(row)}
        end
      end
      lines = found.group_by { |one| one[:reason] }.map do |reason, ones|
        "- #{reason[0].upcase}#{reason[1..]}\n#{tests(ones).join}"
      end
      lines.empty? ? "" : "\n## Why they differ\n\n*It* is the test.\n\n#{lines.join}"
    end

    def where(row) = row.slice("suite", "ruby").transform_keys(&:to_sym)

    # One line for the tests of a suite that differ in the same way on the same Rubies.
    def tests(ones)
      same = ones.group_by { |one| one.slice(:suite, :test, :fate) }
      rows = same.map { |one, all| [one, all.map { |found| found[:ruby] }.join(" and ")] }
      rows.group_by { |one, rubies| [one[:suite], rubies, one[:fate]] }.map do |key, group|
        suite, rubies, fate = key
        names = names(group.map { |one,| one[:test] })
        "  - #{suite}, Ruby #{rubies}: #{names.join(", ")} #{fate}\n"
      end
    end

    # The class is said once: `A#a`, `#b`.
    def names(tests)
      parts = tests.map { |test| test.match(/\A([\w:]+)(#.*)\z/)&.captures || [test, ""] }
      parts.each_with_index.map do |(owner, name), i|
        same = i.positive? && !name.empty? && parts[i - 1].first == owner
        "`#{same ? name : owner + name}`"
      end
    end
  end
end
