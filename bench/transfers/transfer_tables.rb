# frozen_string_literal: true

require_relative "verdicts"

module Bench
  module Transfers
    # The part of {Page} on AsyncIoTest.
    class TransferTables
      include Verdicts

      # Programs in the columns, what the suite calls them, and whether the files were cold.
      PROGRAMS = [["nb", false], ["C", false], ["nb", true]].freeze
      # Number of a program => method of a row.
      NUMBERS = { "Gbit/s" => :gbits, "client" => :cpu, "server" => :server_cpu }.freeze
      LIMITS = [
        ["sendfile(2) takes 0x7ffff000 bytes", "a file of 5,000 bytes more arrives whole",
         "test_a_file_larger_than_one_sendfile"],
        ["writev(2) takes 1,024 parts (IOV_MAX)", "3,077 parts arrive in order",
         "test_a_write_of_more_parts_than_one_call_takes"],
        ["splice(2) moves what a pipe holds", "600,000 bytes pass through a pipe of 256 KB",
         "test_splice_moves_every_byte_in_order"],
        ["MSG_ZEROCOPY fails beyond net.core.optmem_max", "what does not fit is copied",
         "test_many_sends_without_copying"],
        ["setsockopt(2) takes 2,147,483,647 bytes", "`-b 3G` is refused before anything is sent",
         "test_says_what_is_wrong_with_-s_-b_3G"]
      ].freeze
      private_constant :PROGRAMS, :NUMBERS, :LIMITS

      # @param samples [Samples]
      def initialize(samples)
        @ruby = samples.rubies("iotest").first
        @all = samples.transfers(@ruby) if @ruby
        @findings = @ruby ? samples.transfer_findings(@ruby) : []
      end

      # @return [String]
      def to_s
        return "## AsyncIoTest (2006)\n\nNot measured.\n" unless @ruby

        ["## AsyncIoTest (2006)\n", old, recipes, others, limits].join("\n")
      end

      private

      def old
        [<<~MARKDOWN, findings(@findings, "expected or asked in 2006")].join("\n")
          The author published the program and what to try, but no numbers. His TransmitFile is sendfile(2)
          today, TransmitPackets a send with MSG_ZEROCOPY. Over loopback the kernel copies nevertheless.
        MARKDOWN
      end

      def recipes
        heads = ["transfer", *NUMBERS.keys, *NUMBERS.keys.map { |name| "C: #{name}" },
                 *NUMBERS.keys.map { |name| "cold: #{name}" }]
        names = @all.rows.select { |row| row.program == "nb" }.map(&:transfer).uniq
        rows = names.map { |name| [name, *PROGRAMS.flat_map { |program| numbers(name, *program) }] }
        ["### The seven recipes\n", <<~MARKDOWN, table(heads, rows)].join("\n")
          `nb iotest suite 500M`; CPU seconds per gigabyte of client and server; the same transfer by a program
          in C; and with `--cold`.
        MARKDOWN
      end

      def others
        names = @all.rows.map(&:program).uniq - %w[nb C]
        rows = names.map { |name| [name, *numbers(name, name, false)] }
        ["### Other programs\n", <<~MARKDOWN, table(["program", *NUMBERS.keys], rows)].join("\n")
          nc and socat send the file and drop it, iperf3 sends bytes from memory. `nc` can replace either end
          of `nb iotest`; a test does both.
        MARKDOWN
      end

      def limits
        rows = LIMITS.map { |limit, what, test| "| #{limit} | #{what} | `#{test}` |\n" }
        ["### Limits of system calls\n", <<~MARKDOWN, "#{<<~TABLE}#{rows.join}"].join("\n")
          TransmitPackets failed for more than 64 KB at a time unless a parameter named the size. Linux has
          limits of its own; `bin/test test/cli/iotest_test.rb` and `rubyhttp_test.rb` exceed each.
        MARKDOWN
          | limit | what happens | test |
          | --- | --- | --- |
        TABLE
      end

      def numbers(transfer, program, cold)
        NUMBERS.each_value.map do |number|
          Report::Format.number(@all.number(transfer, program, number, cold: cold))
        end
      end
    end
  end
end
