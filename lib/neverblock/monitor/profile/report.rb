# frozen_string_literal: true

require "rbconfig"

module NB
  class Profile
    # A profile as text.
    class Report
      # The most lines that a table has.
      ROWS = 12
      # Seconds; shorter ones would be shown as 0.
      LEAST = 0.0005
      # How the tables call {Profile#totals}.
      THREAD = {slept: "slept: nothing to do", computed: "computed", garbage: "collected garbage",
                gvl: "waited for the GVL", outside: "waited outside the loop",
                rest: "the rest: waited for a core, or unknown"}.freeze
      # How the tables call the kinds of {Entry}.
      KINDS = {io: "I/O", sleep: "sleep", pool: "pool", lock: "lock or queue",
               process: "child process", resolve: "name lookup", offload: "offload thread",
               turn: "its turn", computes: "computes", garbage: "garbage collection",
               gvl: "the GVL", outside: "outside the loop", other: "further stacks"}.freeze
      # Kinds with a column in the table of fibers; the others share one.
      COLUMNS = %i[computes io sleep pool lock turn].freeze
      UNTOLD = "(Ruby 3.1 tells neither of the last two)"
      private_constant :ROWS, :LEAST, :THREAD, :COLUMNS, :UNTOLD

      # @param profile [Profile]
      def initialize(profile)
        @profile = profile
        @entries = profile.entries
      end

      # @return [String]
      def to_s
        [title, thread, fibers, waits, lines].reject(&:empty?).join("\n\n") << "\n"
      end

      private

      def title
        format("Profile of pid %d: %.3f s", Process.pid, @profile.totals[:took])
      end

      def thread
        took = @profile.totals[:took]
        rows = THREAD.map do |key, text|
          seconds = @profile.totals[key]
          format("%10.3f s %5.1f %%  %s", seconds, took.zero? ? 0 : seconds * 100 / took, text)
        end
        rows << "    #{UNTOLD}" if RUBY_VERSION < "3.2"
        ["The loop's thread", *rows].join("\n")
      end

      # By the line at which fibers begin. Times of several fibers overlap, those of one do not.
      def fibers
        rows = @entries.group_by(&:fiber).map { |name, all| [name, seconds_of(all)] }
        rows.select! { |_, seconds| seconds.values.sum >= LEAST }
        return "" if rows.empty?

        rows = rows.sort_by { |_, seconds| -seconds.values.sum }
        head = "Fibers, by the line at which they begin: seconds\n" \
               "    total computes      I/O    sleep     pool     lock     turn    other"
        [head, *rows.first(ROWS).map { |row| fiber(*row) }, *more(rows)].join("\n")
      end

      def seconds_of(entries)
        seconds = Hash.new(0.0)
        entries.each do |entry|
          seconds[COLUMNS.include?(entry.kind) ? entry.kind : :other] += entry.total
          seconds[:turn] += entry.turn
        end
        seconds
      end

      def fiber(name, seconds)
        numbers = [seconds.values.sum, *(COLUMNS + [:other]).map { |kind| seconds[kind] }]
        "#{numbers.map { |one| format("%9.3f", one) }.join}  #{name}"
      end

      def waits
        waits = @entries.reject(&:of_thread?)
        rows = waits.group_by { |one| [one.kind, one.subject, one.place.to_s] }
        return "" if rows.empty?

        table("What fibers waited for", rows) do |(kind, subject, place), all|
          [*[all.sum(&:total), all.map(&:longest).max, all.sum(&:times)],
           "#{[KINDS[kind], subject].reject(&:empty?).join(": ")}  #{place}"]
        end
      end

      def lines
        rows = @entries.select(&:of_thread?).group_by { |one| [one.kind, inner(one)] }
        return "" if rows.empty?

        table("What held the thread", rows) do |(kind, text), all|
          [all.sum(&:total), all.map(&:longest).max, all.sum(&:times), "#{KINDS[kind]}  #{text}"]
        end
      end

      # The line, and the method of Ruby or of a library that it called.
      def inner(entry)
        callee = entry.frames.first
        text = (entry.place || callee || "an unknown place").to_s
        callee && !callee.equal?(entry.place) ? "#{text}: #{callee.label}" : text
      end

      def table(title, rows)
        made = rows.map { |key, all| yield key, all }.sort_by { |row| -row.first }
        made.select! { |row| row.first >= LEAST }
        ["#{title}: seconds, longest, times",
         *made.first(ROWS).map { |row| format("%10.3f %9.3f %8d  %s", *row).rstrip }, *more(made)]
          .join("\n")
      end

      def more(rows)
        rows.size > ROWS ? ["           … and #{rows.size - ROWS} more"] : []
      end
    end
  end
end
