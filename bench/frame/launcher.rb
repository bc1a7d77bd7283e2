# frozen_string_literal: true

require "json"

module Bench
  # Runs cells that are compared, each in a process of its own, by turns of a moment.
  class Launcher
    # @param ruby [RubyTarget]
    # @param ports [Hash{Symbol => Integer}] of the servers that run
    # @param homes [Hash{String => GemHome}] by runtime
    # @param base [Hash] parameters instead of those that the table gives to all cells
    def initialize(ruby, ports: {}, homes: {}, base: {})
      @ruby = ruby
      @ports = ports
      @homes = homes
      @base = base
      @cells = []
    end

    # Starts one cell after the other, then gives each its turn until all have ended. A workload
    # that knows no turns ends before the next begins.
    #
    # @param table [Table]
    # @param row [Array<Hash>] parameters of the cells
    # @param seconds [Float] how long a sample lasts at least
    # @yieldparam params [Hash] of the cell that starts now
    # @return [Array<Hash>] the line of each cell, or "failure" with the reason
    def call(table, row, seconds)
      row.each do |params|
        yield params if block_given?
        command, environment = prepare(table, params, seconds, turns: row.size > 1)
        # Whatever ends us in between would leave a process that nobody knows.
        Thread.handle_interrupt(Object => :never) do
          @cells << Cell.new(command, environment, patience: table.patience)
        end
        turn(@cells.last)
      end
      take_turns
      @cells.map(&:sample)
    ensure
      stop
    end

    # Ends running cells and all they started. Called when the user interrupts, too.
    #
    # @return [void]
    def stop
      @cells.shift.stop while @cells.any?
    end

    private

    # There and back again, as between passes.
    def take_turns
      order = @cells.dup
      until order.all?(&:sample)
        order.reverse!
        order.each { |cell| turn(cell) unless cell.sample }
      end
    end

    # What a cell leaves behind would disturb the next one.
    def turn(cell)
      cell.turn
      cell.stop if cell.sample
    end

    def prepare(table, params, seconds, turns:)
      runtime = Bench.runtimes.fetch(table.runtime_of(params))
      all = table.base.merge(@base, params, ports(table))
      order = { workload: params.fetch(:workload, table.workload), runtime: runtime.id,
                file: runtime.file, seconds: seconds, params: all.except(:runtime, :workload),
                gems: gems(runtime), turns: turns }
      [[*@ruby.command, "-I#{File.join(ROOT, "lib")}", File.join(HOME, "child.rb"),
        JSON.generate(order)], environment(runtime)]
    end

    # A table of one server knows its port; one of several knows them by their names.
    def ports(table)
      return { ports: @ports.slice(*table.servers) } if table.servers.size > 1

      { port: @ports[table.servers.first] }.compact
    end

    def gems(runtime)
      @homes[runtime.id]&.gems || {}
    end

    def environment(runtime)
      RubyTarget::CLEAN.merge(@homes[runtime.id]&.environment || {}).merge(runtime.environment)
    end
  end
end
