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

    # Defines a runtime, and one more for each size; called by the files in bench/runtimes/.
    #
    # @param id [String] also the name of its file
    # @param sizes [Array<Integer>] "id_50" is the same runtime of size 50
    # @yield [size] in the runtime; without a size for the plain id
    # @return [void]
    def runtime(id, sizes: [], &block)
      @runtimes[id] = Runtime.new(id, &block)
      sizes.each { |size| @runtimes["#{id}_#{size}"] = Runtime.new("#{id}_#{size}", size, &block) }
    end

    # @return [Hash{String => Table}] every table, in the order of {TABLES}
    def tables
      load_all("runtimes")
      load_all("tables")
      @tables.sort_by { |id, _| [TABLES.index(id) || TABLES.size, id] }.to_h
    end

    # @return [Hash{String => Runtime}]
    def runtimes
      load_all("runtimes")
      @runtimes
    end

    # In a cell, which loads the file of one runtime only.
    #
    # @param id [String]
    # @return [Runtime]
    def loaded_runtime(id) = @runtimes.fetch(id)

    # @param ids [Array<String>] in any case; empty for all
    # @return [Array<Table>]
    # @raise [Bench::Misuse] when one is unknown
    def select(ids)
      return tables.values if ids.empty?

      ids.map do |id|
        tables[id.downcase] || tables.values.find { |table| view?(table, id) } ||
          raise(Misuse, "no table #{id.inspect}: known are #{tables.keys.join(", ")}")
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
end
