# frozen_string_literal: true

module Bench
  # One published table and how we measure it anew. Built by {TableBuilder} in bench/tables/.
  class Table
    # @return [String] what people type: "a5"
    attr_reader :id
    # @return [String] title, question and how ours differs from the source, in words
    attr_reader :title, :question, :differs
    # @return [Array<Hash>] :article, :author, :year, :setup
    attr_reader :sources
    # @return [Array<Axis>] every axis
    attr_reader :axes
    # @return [String] name of the workload's file
    attr_reader :workload
    # @return [String, nil] id of the runtime of all cells, where no axis names runtimes
    attr_reader :runtime
    # @return [Hash] parameters that all cells share
    attr_reader :base
    # @return [Hash{String => String}] gem => version that every cell needs
    attr_reader :gems
    # @return [Array<Symbol>] servers that must run beside the cells
    attr_reader :servers
    # @return [Array<View>]
    attr_reader :views
    # @return [Integer] seconds after which a cell is given up
    attr_reader :patience
    # @return [Numeric, nil] seconds that a sample usually takes; nil: as long as the session says
    attr_reader :lasts
    # @return [Array<String>] claims without numbers: what the source says beyond its tables
    attr_reader :claims

    # @param id [String]
    # @param fields [Hash] see the readers
    # @param rules [Hash] :skip, :at_most, :again: arrays of procs over a cell's parameters
    def initialize(id, fields, rules)
      @id = id
      fields.each { |name, value| instance_variable_set(:"@#{name}", value) }
      @rules = rules
      @views = []
    end

    # @return [Boolean] whether all its cells need our extension, whatever they run on
    def ours? = @ours == true

    # @param name [Symbol]
    # @return [Axis]
    # @raise [KeyError] when the table has no such axis
    def axis(name)
      axes.find { |axis| axis.name == name } ||
        raise(KeyError, "table #{id} has no axis #{name.inspect}, only: #{axes.map(&:name)}")
    end

    # @return [Hash{String => String}] how each rival is set up, as the table prints it
    def settings
      ids = axes.find { |axis| axis.name == :runtime }&.values || [runtime]
      runtimes = Bench.runtimes.values_at(*ids).compact
      runtimes.to_h { |one| [one.label, one.settings] }.compact.merge(@settings)
    end

    # @param cell [Hash]
    # @return [String] id of the runtime that runs it
    def runtime_of(cell) = cell.fetch(:runtime, runtime)

    # Groups of cells that are measured next to each other: they differ in the first axis only.
    #
    # @param quick [Boolean]
    # @param only [Array<String>, nil] values of the first axis to keep; nil for all
    # @param where [Hash{String => Array<String>}] axis => values to keep
    # @return [Array<Array<Hash>>] parameters of each cell
    def groups(quick: false, only: nil, where: {})
      first, *others = axes.map { |axis| chosen(axis, quick && !where.key?(axis.name.to_s), where) }
      first &= only if only
      names = axes.map(&:name)
      combinations = others.empty? ? [[]] : others.first.product(*others.drop(1))
      combinations.map do |rest|
        first.map { |value| names.zip([value, *rest]).to_h }.reject { |cell| skip?(cell) }
      end
    end

    # @return [Array] values of the axis
    def chosen(axis, quick, where)
      values = quick ? axis.quick : axis.values
      wanted = where[axis.name.to_s]
      wanted ? values.select { |value| wanted.include?(value.to_s) } : values
    end

    # @param cell [Hash]
    # @return [Boolean] whether this combination makes no sense
    def skip?(cell)
      @rules[:skip].any? { |rule| rule.call(cell) }
    end

    # @param cell [Hash]
    # @param quick [Boolean]
    # @return [Integer] how many samples are enough for this cell
    def at_most(cell, quick: false)
      @rules[:at_most].filter_map { |count, rule| count if rule.call(cell, quick) }.min || 1_000_000
    end

    # @param cell [Hash]
    # @return [Boolean] whether the cell is measured twice per pass, for the noise floor
    def again?(cell)
      @rules[:again].any? { |rule| rule.call(cell) }
    end
  end
end
