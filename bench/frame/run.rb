# frozen_string_literal: true

module Bench
  # One sample, as it stands in the JSONL: which cell, in which pass, what it printed.
  class Run
    # @return [Hash{Symbol => Object}] parameters of the cell
    attr_reader :params
    # @return [Integer] pass it belongs to
    attr_reader :pass
    # @return [Hash{String => Object}] what the cell printed
    attr_reader :sample
    # @return [Integer] which session of its file has measured it, from 0
    attr_reader :session

    # @param line [Hash{String => Object}] a parsed line
    # @param session [Integer]
    def initialize(line, session = 0)
      @session = session
      @params = line.fetch("params").transform_keys(&:to_sym)
      @pass = line.fetch("pass")
      @again = line.fetch("again")
      @sample = line.fetch("sample")
    end

    # @return [Array] which samples it makes pairs with: only those taken beside it
    def turn = [session, pass]

    # @return [Float, nil] cores that other programs used meanwhile; nil where nobody looked
    def others = sample["others"]

    # @return [Integer] how many samples before it were thrown away because others computed
    def repeats = sample["repeats"].to_i

    # @return [Boolean] whether others computed meanwhile
    def crowded? = others.to_f > Neighbours::LIMIT

    # @return [Boolean] whether it is the second sample of its cell in this pass
    def again? = @again

    # @return [String, nil] why there is no number
    def failure = sample["failure"]

    # @return [Integer]
    def errors = sample["errors"].to_i

    # @return [Array<String>]
    def notes = sample.fetch("notes", [])

    # @param metric [String] "value" or a key of its metrics
    # @return [Numeric, nil]
    def number(metric)
      metric == "value" ? sample["value"] : sample.fetch("metrics", {})[metric]
    end

    # @return [Float, nil] CPU seconds per second
    def cpu_share
      elapsed = sample["elapsed"]
      sample["cpu"] / elapsed if sample["cpu"] && elapsed&.positive?
    end
  end
end
