# frozen_string_literal: true

require "json"

module NB
  class Profile
    # A profile as a file for speedscope, whose format it is:
    # https://github.com/jlfwong/speedscope/blob/main/src/lib/file-format-spec.ts
    #
    # @api private
    class Speedscope
      # The format's schema.
      SCHEMA = "https://www.speedscope.app/file-format-schema.json"
      private_constant :SCHEMA

      # @param profile [Profile]
      def initialize(profile)
        @profile = profile
        @frames = {}
      end

      # @return [String] JSON
      def to_s
        of_thread = @profile.entries.select(&:of_thread?)
        profiles = [sampled("Fibers: what they do and wait for", @profile.entries),
                    sampled("The loop's thread", of_thread, sleep: true)]
        JSON.generate("$schema" => SCHEMA, "exporter" => "neverblock@#{VERSION}",
                      "name" => "NeverBlock, pid #{Process.pid}", "activeProfileIndex" => 0,
                      "shared" => {"frames" => @frames.keys}, "profiles" => profiles)
      end

      private

      # The root is where the fiber begins, the leaf what it waits for.
      def sampled(name, entries, sleep: false)
        rows = entries.flat_map { |entry| rows_of(entry) }
        rows << [[number(name: "(asleep: nothing to do)")], @profile.totals[:slept]] if sleep
        rows = rows.map { |stack, seconds| [stack, (seconds * 1e6).round] }
                   .reject { |_, us| us.zero? }
        {type: "sampled", name: name, unit: "microseconds", startValue: 0,
         endValue: rows.sum(&:last), samples: rows.map(&:first), weights: rows.map(&:last)}
      end

      def rows_of(entry)
        stack = [number(name: entry.fiber), *entry.frames.reverse.map { |frame| number_of(frame) }]
        leaf = entry.kind == :computes ? [] : [number(name: leaf(entry))]
        rows = [[stack + leaf, entry.total]]
        rows << [[*stack, number(name: "(its turn)")], entry.turn] if entry.turn > 0
        rows
      end

      def leaf(entry)
        "(#{[Report::KINDS[entry.kind], entry.subject].reject(&:empty?).join(": ")})"
      end

      def number_of(frame)
        return number(name: frame.label) unless frame.path

        number(name: frame.label.to_s, file: frame.path, line: frame.definition || frame.line)
      end

      def number(frame) = @frames[frame] ||= @frames.size
    end
  end
end
