# frozen_string_literal: true

require_relative "detail"
require_relative "lists"
require_relative "summary"
require_relative "table"

module NB
  module CLI
    module Top
      # The state of `nb top`'s display: the list, its sorting, the selected row, and the lines to
      # show.
      #
      # @api private
      class View
        # The number of lines above the lists, by the height of the terminal.
        SUMMARY = ->(rows) { (rows / 5).clamp(1, 5) }
        # The effect of each key.
        HELP = ["Tab ← →   another list          1-5       this list",
                "↑ ↓       another row           Enter     backtrace, or what is known of it",
                "s         sort by the next column",
                "r         reverse the order", "p         pause, or continue",
                "Esc       back                  q         quit"].freeze
        SHORT = "q quit  Tab list  ↑↓ row  Enter backtrace  s sort  r reverse  p pause  ? help"
        private_constant :SUMMARY, :SHORT

        # @param address [String]
        # @param styled [Boolean] whether bold and reverse text may be shown
        # @param colors [Boolean]
        def initialize(address, styled: true, colors: true)
          @address = address
          @styled = styled
          @colors = colors
          @list = 0
          @sorts = Lists.all.map { |list| [list.sort, false] }
          @selected = nil
          @mode = :list
        end

        # @return [Boolean] whether the display is paused
        attr_reader :paused

        # Takes an answer of the server, or the reason why there is none.
        # @param sample [Feed::Sample]
        def update(sample)
          @error = sample.error
          @sample = sample if sample.snapshot && !@paused
        end

        # @param key [Symbol, String]
        # @return [Symbol, nil] :quit
        def press(key)
          case key
          when "q", "Q" then return :quit
          when :right, "l" then turn(1)
          when :left, "h" then turn(-1)
          when "1".."5" then show(key.to_i - 1)
          when :up, "k", :down, "j", :page_up, :page_down, :home, :end then move(key)
          else press_other(key)
          end
          nil
        end

        # @param rows [Integer, nil] of the terminal; nil: unlimited
        # @param width [Integer]
        # @return [Array<String>] lines of at most that width, as many as the terminal has
        def lines(rows, width)
          return [error_line(width) || Printable.cut("asking the server", width)] unless @sample

          top = Summary.new(@sample, @address).lines(width, rows ? SUMMARY.call(rows) : 8)
          top[0] = bold(top[0])
          body = [*top, tabs(width)]
          room = rows && [rows - body.size - 1, 0].max
          body.concat(content(room, width))
          rows ? fill(body, rows, width) : body
        end

        private

        def press_other(key)
          case key
          when "s", "S" then sort[0] = (sort[0] + 1) % list.columns.size
          when "r", "R" then sort[1] = !sort[1]
          when "p", "P", " " then @paused = !@paused
          when "?" then @mode = @mode == :help ? :list : :help
          when :enter then @mode = @mode == :list ? :detail : :list
          when :escape then @mode = :list
          end
        end

        def list = Lists.all[@list]
        def sort = @sorts[@list]
        def turn(step) = show((@list + step) % Lists.all.size)

        def show(index)
          @list = index
          @mode = :list
          @selected = nil
          @offset = 0
        end

        def move(key)
          return @offset = [@offset.to_i + step(key), 0].max unless @mode == :list

          rows = sorted
          index = (position(rows) || 0) + step(key)
          index = 0 if key == :home
          index = rows.size - 1 if key == :end
          @selected = rows.empty? ? nil : identity(rows[index.clamp(0, rows.size - 1)])
        end

        def step(key)
          { up: -1, "k" => -1, down: 1, "j" => 1, page_up: -10, page_down: 10 }.fetch(key, 0)
        end

        def sorted
          column = list.columns[sort[0]]
          rows = Lists.rows(@sample ? @sample.snapshot : {workers: []}, list)
          rows = rows.sort_by.with_index { |row, index| [column.by.call(row), index] }
          sort[1] ? rows.reverse : rows
        end

        # The row stays selected when it moves.
        def identity(row) = row.values_at(:process, :id, *(%i[name kind place] unless row[:id]))
        def position(rows) = @selected && rows.index { |row| identity(row) == @selected }

        def content(room, width)
          case @mode
          when :help then HELP.map { |line| Printable.cut(line, width) }
          when :detail then detail(room, width)
          else table(room, width)
          end.first(room || 100_000)
        end

        def table(room, width)
          rows = sorted
          table = Table.new(list.columns, width)
          at = position(rows)
          at = 0 if at.nil? && room
          first = room && at ? [at - room + 2, 0].max : 0
          lines = rows.drop(first).first(room || rows.size).map.with_index(first) do |row, index|
            index == at ? reverse(table.row(row)) : table.row(row)
          end
          [bold(table.head(list.columns[sort[0]], sort[1])), *lines]
        end

        def detail(room, width)
          rows = sorted
          row = rows[position(rows) || 0]
          @selected = identity(row) if row && @selected.nil?
          return ["it has ended: Esc shows the list"] if row.nil? || identity(row) != @selected

          lines = Detail.new(list, row).lines
          @offset = @offset.to_i.clamp(0, [lines.size - (room || lines.size), 0].max)
          lines.drop(@offset).map { |line| Printable.cut(line, width) }
        end

        def tabs(width)
          names = Lists.all.map.with_index do |one, index|
            text = "#{one.name} #{Lists.rows(@sample.snapshot, one).size}"
            index == @list ? "[#{text}]" : " #{text} "
          end
          Printable.cut(names.join, width).then { |line| bold(line) }
        end

        def fill(body, rows, width)
          keys = @paused ? "PAUSED  #{SHORT}" : SHORT
          foot = error_line(width) || dim(Printable.cut(keys, width))
          body = body.first(rows - 1)
          [*body, *Array.new(rows - 1 - body.size, ""), foot]
        end

        def error_line(width)
          paint(Printable.cut(Printable.text(@error), width), 31) if @error
        end

        def paint(text, code) = @colors ? "\e[#{code}m#{text}\e[0m" : text
        def bold(text) = @styled ? "\e[1m#{text}\e[0m" : text
        def dim(text) = @styled ? "\e[2m#{text}\e[0m" : text
        def reverse(text) = @styled ? "\e[7m#{text}\e[0m" : text
      end
    end
  end
end
