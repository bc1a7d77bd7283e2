# frozen_string_literal: true

require "json"

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
        @process = ChildProcess.new(RubyTarget::CLEAN, [*ruby.command, "-I#{lib}", CHILD, order])
      end

      # @return [self] once it has done a round that does not count
      # @raise [Bench::Error] if it cannot
      def ready = read && self

      # @return [Float] CPU seconds of an operation, in one more round
      # @raise [Bench::Error] if it cannot
      def turn
        @process.input.puts
        Float(read)
      rescue Errno::EPIPE
        give_up
      end

      # @return [void]
      def stop = @process.stop

      private

      def read
        raise Error, "no answer within #{@patience} s" unless
          @process.output.wait_readable(@patience)

        @process.output.gets || give_up
      end

      def give_up
        @process.status
        raise Error, @process.complaint || "ended by itself"
      end
    end
  end
end
