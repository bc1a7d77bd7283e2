# frozen_string_literal: true

# What the files in bench/tables/ and bench/runtimes/ add to.
module Bench
  @tables = {}
  @runtimes = {}
  @loaded = []

  class << self
    # Defines a table; called by the files in bench/tables/.
    #
    # @param id [String]
    # @return [Table]
    def table(id, &block)
      @tables[id] = TableBuilder.build(id, &block)
    end

    # Defines a runtime; called by the files in bench/runtimes/.
    #
    # @param id [String]
    # @return [Runtime]
    def runtime(id, &block)
      @runtimes[id] = Runtime.new(id, &block)
    end

    # @return [Hash{String => Table}] every table, in the order of the pages
    def tables
      load_all("runtimes")
      load_all("tables")
      @tables.sort_by { |id, _| [ORDER.index(id) || ORDER.size, id] }.to_h
    end

    # @return [Hash{String => Runtime}]
    def runtimes
      load_all("runtimes")
      @runtimes
    end

    # @param ids [Array<String>] in any case; empty for all
    # @return [Array<Table>]
    # @raise [Bench::Error] when one is unknown
    def select(ids)
      return tables.values if ids.empty?

      ids.map do |id|
        tables[id.downcase] || tables.values.find { |table| view?(table, id) } ||
          raise(Error, "no table #{id.inspect}: known are #{tables.keys.join(", ")}")
      end.uniq
    end

    private

    def view?(table, id)
      table.views.any? { |view| view.id.casecmp?(id) }
    end

    def load_all(folder)
      return if @loaded.include?(folder)

      @loaded << folder
      Dir[File.join(HOME, folder, "*.rb")].sort.each { |path| require path }
    end
  end

  # The order of pages: the articles' own, then what they only claim, then the field of today.
  ORDER = %w[a3 a5 a8 b1 b2 b3 c3 c3_sleep c4 c5 c6 d1 d2 e2 e3 e3_pool e4 e5 rails f1 f2 f3 g1 h3
             i2 i3 i5 i6 i8 schedulers timers idle s1 s2 s3 s4 s10 s5 s6 s7 s8 s9].freeze
  private_constant :ORDER
end
