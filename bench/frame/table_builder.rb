# frozen_string_literal: true

module Bench
  # The words of a file in bench/tables/. Each call states one fact of the table.
  #
  # @example
  #   Bench.table "a3" do
  #     title "20 requests to a server that takes a second"
  #     question "How long do 20 GETs take?"
  #     source article: "Ruby Networking on Steroids", author: "M. A. Ali", year: 2008
  #     axis :runtime, %w[blocking threads nb]
  #     workload "requests", requests: 20
  #     view("A3", title: "Time", unit: "s", rows: :runtime, columns: :delay_ms) { … }
  #   end
  class TableBuilder
    # @param id [String] lower case
    # @return [Table]
    def self.build(id, &block)
      new(id).tap { |builder| builder.instance_eval(&block) }.table
    end

    # @param id [String]
    def initialize(id)
      @id = id
      @fields = { title: id, question: nil, differs: nil, sources: [], axes: [], workload: nil,
                  runtime: nil, base: {}, servers: [], gems: {}, patience: 120, claims: [],
                  lasts: nil, settings: {}, ours: false }
      @rules = { skip: [], at_most: [], again: [] }
      @views = []
    end

    # @param text [String]
    def title(text) = @fields[:title] = text
    # @param text [String] what the table answers
    def question(text) = @fields[:question] = text
    # @param text [String] how our measurement differs from the source's
    def differs(text) = @fields[:differs] = text.gsub(/\s+/, " ").strip
    # @param seconds [Integer] after which a cell is given up
    def patience(seconds) = @fields[:patience] = seconds

    # @param seconds [Numeric] what a sample of this table usually takes, where that is not the
    #   length that the session asks for; for the estimate in `nb bench --list`
    def lasts(seconds) = @fields[:lasts] = seconds

    # @param article [String]
    # @param author [String]
    # @param year [Integer]
    # @param setup [String, nil] machine and versions as far as the source tells
    def source(article:, author:, year:, setup: nil)
      @fields[:sources] += [{ article: article, author: author, year: year, setup: setup }]
    end

    # How rivals are set up that are no runtimes of their own.
    #
    # @param texts [Hash{String => String}] rival => its settings
    def settings(texts) = @fields[:settings] = texts

    # What the source states in words, beside or instead of a number.
    #
    # @param text [String]
    def claim(text) = @fields[:claims] += [text.gsub(/\s+/, " ").strip]

    # @param name [Symbol]
    # @param values [Array]
    # @param options [Hash] see {Axis}
    def axis(name, values, **options)
      @fields[:axes] += [Axis.new(name, values, **options)]
    end

    # @param name [String] file in bench/workloads/
    # @param base [Hash] parameters that all cells share
    def workload(name, **base)
      @fields[:workload] = name
      @fields[:base] = base
    end

    # What all cells run on; a table that compares runtimes has an axis of them instead.
    #
    # @param id [String] file in bench/runtimes/
    def runtime(id) = @fields[:runtime] = id

    # Every cell loads code of this project, so the extension must be compiled for its Ruby.
    def ours = @fields[:ours] = true

    # @param names [Array<Symbol>] see {Server}
    def server(*names) = @fields[:servers] += names

    # @param versions [Hash{String => String}] gem => version that every cell needs
    def gems(versions) = @fields[:gems] = versions

    # Leaves out the combinations for which the block is true.
    #
    # @yieldparam cell [Hash]
    def skip(&rule) = @rules[:skip] << rule

    # Takes no more than count samples where the block is true: for long cells that cannot vary.
    #
    # @param count [Integer]
    # @yieldparam cell [Hash]
    # @yieldparam quick [Boolean]
    def at_most(count, &rule)
      @rules[:at_most] << [count, proc { |cell, quick| rule.call(cell, quick) }]
    end

    # Measures the cells for which the block is true a second time in each pass: the noise floor.
    #
    # @yieldparam cell [Hash]
    def again(&rule) = @rules[:again] << rule

    # @param id [String] as printed, "A5"
    # @param options [Hash] see {View#initialize}; the first view is the table's headline
    # @yield in the view: published, derived, limit
    def view(id, **options, &block) = @views << [id, options, block]

    # @return [Table]
    # @raise [ArgumentError] when a part is missing
    def table
      missing = %i[question differs workload].select { |name| @fields[name].nil? }
      missing += %i[sources axes].select { |name| @fields[name].empty? }
      missing << :runtime unless @fields[:runtime] || @fields[:axes].any? { |a| a.name == :runtime }
      raise ArgumentError, "table #{@id}: missing #{missing.join(", ")}" if missing.any?

      Table.new(@id, @fields, @rules).tap do |table|
        @views.each do |id, options, block|
          view = View.new(table, id, headline: table.views.empty?, **options)
          view.instance_eval(&block) if block
          table.views << view
        end
      end
    end
  end
end
