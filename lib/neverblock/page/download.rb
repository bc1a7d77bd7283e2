# frozen_string_literal: true

require "json"
require_relative "../legible"
require_relative "../server/snapshot_text"

module NB
  class Page
    # A snapshot as text, to be kept and sent: what the page's button downloads.
    #
    # @api private
    module Download
      # What is asked for.
      DETAIL = "fibers=1000&requests=1000&frames=60"

      class << self
        # @param json [String]
        # @return [String]
        def text(json)
          snapshot = JSON.parse(json, symbolize_names: true)
          lines = [head(snapshot), *serving(snapshot).flat_map { |process| ["", *lines(process)] }]
          lines.map { |line| Legible.line(line) }.join("\n") << "\n"
        end

        private

        def head(process)
          time = Time.at(process[:time]).utc.strftime("%FT%TZ")
          ["NeverBlock, pid #{process[:pid]}", "version #{process[:version]}",
           "Ruby #{process[:ruby]}", time, process[:ready] ? "ready" : "not ready"].join(", ")
        end

        def serving(snapshot) = snapshot[:workers].empty? ? [snapshot] : snapshot[:workers]

        def lines(process)
          first, *rest = Server::SnapshotText.process(process)
          return [first] if process[:silent]

          [first, "memory #{process[:memory_bytes] / 1_000_000} MB",
           "loop #{JSON.generate(process[:loop])}", *rest]
        end
      end
    end
  end
end
