# frozen_string_literal: true

module Bench
  # G1, G2 and G8: downloads from the sites of `nb rubyhttp`.
  module Downloads
    # @param rows [Symbol] the axis whose values are compared
    # @param subject [String] the one that the others are compared with
    # @param sites [Array<String>] a quick run leaves out the last one
    # @return [void]
    def downloads(rows, subject, sites: %w[dallas seattle])
      axis :site, sites, title: "site", quick: sites[0..-2]
      ours
      patience 60
      again { |cell| cell[rows] == subject }
      view @id.upcase, title: "CPU time per gigabyte", unit: "s/GB", better: :lower, rows: rows,
                       columns: :site, compare: subject, amount: true
    end

    # @param rows [Symbol]
    # @return [void]
    def download_rate(rows)
      view "#{@id.upcase} rate", title: "Megabytes per second", unit: "MB/s", rows: rows,
                                 columns: :site, metric: "mb_per_s"
    end
  end
end
