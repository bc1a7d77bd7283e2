# frozen_string_literal: true

require_relative "rates"
require_relative "summary"
require_relative "words"

module NB
  module CLI
    module Top
      # The lists that `nb top` can show. A row is a Hash of /snapshot with a further key :worker,
      # the index of its process.
      #
      # @api private
      class Lists
        # A column: its title, its width (0: what is left), whether it has numbers, the value it
        # shows, the value it is sorted by, and the terminal width below which it is left out.
        Column = Struct.new(:title, :width, :right, :show, :by, :from)
        # A list: its name, its columns, the number of the column by which it is sorted first, and
        # how to get its rows from a snapshot.
        List = Struct.new(:name, :columns, :sort, :rows)

        class << self
          # @return [Array<List>]
          attr_reader :all

          # @param snapshot [Hash]
          # @param list [List]
          # @return [Array<Hash>]
          def rows(snapshot, list)
            Rates.processes(snapshot).flat_map do |process|
              rows = list.rows == :process ? [condition(process)] : process[list.rows].to_a
              rows.map do |row|
                { **row, worker: process[:index] || 0, process: process[:pid] }
              end
            end
          end

          private

          def condition(process) = process.merge(condition: Summary.condition(process))

          def number(title, width, key, from: 0, &show)
            show ||= ->(value) { Words.count(value) }
            Column.new(title, width, true, ->(row) { show.call(row[key]) },
                       ->(row) { -(row[key] || -1) }, from)
          end

          def time(title, key, from: 0)
            number(title, 7, key, from: from) { |seconds| Words.time(seconds) }
          end

          def text(title, width, key, from: 0, &show)
            show ||= ->(value) { Printable.text(value || "-") }
            Column.new(title, width, false, ->(row) { show.call(row[key]) },
                       ->(row) { row[key].to_s }, from)
          end

          def place(title = "PLACE", key = :place, width: 0, from: 0)
            text(title, width, key, from: from) { |value| Words.place(value) }
          end
        end

        # The column that names the process of a row.
        WORKER = number("W", 2, :worker, from: 60) { |index| index.to_s }
        # Requests in flight, the oldest first.
        REQUESTS = List.new("requests", [
                              WORKER, time("AGE", :age_seconds), time("WAITED", :waited_seconds),
                              text("METHOD", 7, :method, from: 60), text("PATH", 0, :path),
                              text("WAITS FOR", 0, :waits_for, from: 60)
                            ], 1, :requests)
        # Fibers, the longest waits first.
        FIBERS = List.new("fibers", [
                            WORKER, text("STATE", 7, :state), time("WAITED", :waited_seconds),
                            time("LIMIT", :timeout_seconds, from: 100), text("NAME", 0, :name),
                            text("WAITS FOR", 0, :waits_for, from: 60), place(from: 100)
                          ], 2, :fibers)
        # Pools, those with the most waiters first.
        POOLS = List.new("pools", [
                           WORKER, number("USED", 5, :in_use), number("SIZE", 5, :size),
                           number("WAIT", 5, :waiting), number("WAITS", 7, :waits_total, from: 60),
                           time("TIME", :wait_seconds_total, from: 80),
                           number("TIMEOUT", 7, :timeouts_total, from: 60),
                           text("POOL", 0, :name), text("KIND", 18, :kind, from: 80)
                         ], 3, :pools)
        # Worker processes, by index.
        WORKERS = List.new("workers", [
                             number("W", 2, :index) { |index| (index || 0).to_s },
                             number("PID", 8, :pid, &:to_s), number("RUN", 4, :running),
                             number("QUEUE", 5, :queued), number("CONN", 6, :connections, from: 60),
                             number("MEMORY", 7, :memory_bytes) { |bytes| Words.bytes(bytes) },
                             time("REPORT", :report_age_seconds, from: 60),
                             text("STATE", 0, :condition)
                           ], 0, :process)
        # Places that stopped a loop, the latest first.
        STALLS = List.new("stalls", [
                            WORKER, number("COUNT", 6, :count),
                            number("LONGEST", 8, :longest_ms) { |ms| Words.time(ms / 1000.0) },
                            time("AGO", :last_seconds_ago), place,
                            text("DOING", 0, :doing, from: 60)
                          ], 3, :stalls)
        @all = [REQUESTS, FIBERS, POOLS, WORKERS, STALLS].freeze
      end
    end
  end
end
