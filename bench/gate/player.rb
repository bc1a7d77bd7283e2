# frozen_string_literal: true

require "json"
require "tempfile"

module Bench
  module Gate
    # A process that does rounds of one row with one library, whenever it is told to.
    class Player
      # Seconds for its start and for each round.
      PATIENCE = 60
      CHILD = File.join(HOME, "gate", "child.rb")
      private_constant :PATIENCE, :CHILD

      # @param ruby [RubyTarget]
      # @param lib [String] directory of the library
      # @param row [Row]
      # @param patience [Numeric] seconds for its start and for each round
      def initialize(ruby, lib, row, patience: PATIENCE)
        @patience = patience
        order = JSON.generate(workload: row.workload, params: row.params)
        @errors = Tempfile.new("bench-gate")
        input, @input = IO.pipe
        @output, output = IO.pipe
        @pid = Process.spawn(RubyTarget::CLEAN, *ruby.command, "-I#{lib}", CHILD, order,
                             in: input, out: output, err: @errors.path, pgroup: true)
        [input, output].each(&:close)
      end

      # @return [self] once it has done a round that does not count
      # @raise [Bench::Error] if it cannot
      def ready = read && self

      # @return [Float] CPU seconds of an operation, in one more round
      # @raise [Bench::Error] if it cannot
      def turn
        @input.puts
        Float(read)
      rescue Errno::EPIPE
        give_up
      end

      # @return [void]
      def stop
        Command.end_group(@pid)
      ensure
        [@input, @output, @errors].each(&:close)
        @errors.unlink
      end

      private

      def read
        raise Error, "no answer within #{@patience} s" unless @output.wait_readable(@patience)

        @output.gets || give_up
      end

      def give_up
        Process.wait(@pid)
        said = File.readlines(@errors.path).grep_v(/warning:/).first.to_s.strip
        raise Error, said.empty? ? "ended by itself" : said.sub("#{ROOT}/", "")[0, 200]
      end
    end
  end
end
