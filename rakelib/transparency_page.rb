# frozen_string_literal: true

require "json"

# docs/TRANSPARENCY.md from what the tests of drivers have measured (test/drivers/results/*.json).
class TransparencyPage
  RESULTS = "test/drivers/results/*.json"
  PATH = "docs/TRANSPARENCY.md"
  HEAD = <<~MARKDOWN
    # What waits, and what blocks

    Which libraries let other fibers run while they wait, and which stop the loop? Here, unmodified
    libraries run in 50 fibers of one thread against real servers. Each row is one operation; the server
    takes 100 ms for it, or the time in the row. An operation **waits** if all 50 together end at most 100
    ms later than one alone, while a concurrent ticker that wakes every 5 ms is never more than 10 ms
    late. It **blocks** if the loop stands still; the last column then gives the reason, and what to use
    instead. In each cell, the first number is the time that all fibers took, the second the ticker's
    greatest delay. A number before a colon is the number of fibers, if not 50.

    In rows with "a host name that resolves late", the name server takes 300 ms. The tests compare errors
    (class and message) with those that the same code raises without a loop. They subtract the time for
    which the machine itself stood still, and from the ticker's delay also the time of garbage collection.
    A cure applies automatically when NeverBlock and the library are both loaded; `NB_DRIVERS` switches
    cures off (`puts NB::Drivers.status` lists them).

    `rake transparency` writes this page from the measurements of `test/drivers`. A test fails if the page
    and the measurements differ.
  MARKDOWN

  # What test/server/{frameworks,graphql,websocket}_test.rb prove, without numbers.
  FRAMEWORKS = <<~MARKDOWN
    ## Frameworks, and libraries inside requests

    Fifty requests to `nb serve`'s server, each with its own token, overlap inside the application: none
    continues before all have arrived, none answers with another's token, and a ticker keeps running
    meanwhile. grape and hanami-router are tested on Ruby 3.4 only.

    | Library | What | Requests overlap |
    |---|---|---|
    | sinatra 4.2, roda 3.109, grape 3.2, hanami-router 3.0 | parameters, instance variables | yes |
    | concurrent-ruby 1.3 | promises, thread pools, IVar, Event, CountDownLatch, ScheduledTask, TimerTask, Semaphore, ReentrantReadWriteLock, Map | yes |
    | async-websocket 0.30 | its Rack adapter, fifty concurrent WebSockets | yes |
    | graphql 2.6 | without a Dataloader | yes |
    | graphql 2.6 | `GraphQL::Dataloader::AsyncDataloader`, in fields and sources; needs async 2.25, and therefore Ruby 3.2 | yes |
    | graphql 2.6 | `GraphQL::Dataloader, nonblocking: true`, in fields and sources | yes |
    | graphql 2.6 | `GraphQL::Dataloader` | **blocks**: it uses blocking fibers (`Fiber.new(blocking: true)`), which never wait in a loop; use one of the two above instead |
  MARKDOWN

  def initialize(files = Dir[RESULTS])
    @libraries = files.sort.map do |file|
      [File.basename(file, ".json"), JSON.parse(File.read(file))]
    end
  end

  def write = File.write(PATH, to_s)

  def to_s
    groups = @libraries.group_by { |_, rubies| rubies.values.last.fetch("group") }.sort
    [HEAD, *groups.map { |name, libraries| group(name, libraries) }, FRAMEWORKS, foot].join("\n")
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
      how = by_ruby.filter_map { |one| one && one["how"] }.last # an older version may have a cure
      line(library, operation, "#{row["delay_ms"]} ms",
           *by_ruby.map { |one| one ? cell(one) : "—" }, how || "as it is")
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
