# frozen_string_literal: true

module Bench
  module Gate
    # Measures rows in this tree and in a reference, with this tree's workloads.
    #
    # A pair is two processes that take turns of some milliseconds: whatever the machine does
    # meanwhile strikes both, and turns beside each other are compared. Each pair is a new one,
    # because addresses and hashes differ from process to process. Rows are looked at after 6, 12
    # and 20 pairs; only what is undecided goes on.
    class Run
      # Turns of each process of a pair.
      TURNS = 16

      # @param libraries [Hash{Symbol => String}] :tree and :reference => directory
      # @param ruby [RubyTarget]
      # @param rows [Array<Row>]
      # @param limit [Float] the share by which a row may be slower
      # @param looks [Array<Integer>] numbers of pairs
      # @param progress [Progress]
      def initialize(libraries, ruby:, rows: ROWS, limit: 0.05, looks: Statistics::RISKS.keys,
                     progress: Progress.new)
        @libraries = libraries
        @ruby = ruby
        @looks = looks
        @progress = progress
        @comparisons = rows.map { |row| Comparison.new(row, limit: limit) }
      end

      # @return [Array<Comparison>] one per row
      def call
        [0, *@looks].each_cons(2) do |from, to|
          open = @comparisons.select { |one| one.verdict(last: false) == :open }
          steps = (from...to).flat_map { |number| open.map { |one| [one, number] } }
          @progress.begin(steps.map { |one, _| one.row.id })
          steps.each { |one, number| take(one, number) }
        end
        @comparisons
      ensure
        @progress.clear
      end

      private

      def take(comparison, number)
        return @progress.step(nil) if comparison.failure

        @progress.show("#{comparison.row.id}, pair #{number + 1}")
        started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        pair(comparison)
        @progress.step(Process.clock_gettime(Process::CLOCK_MONOTONIC) - started)
      end

      def pair(comparison)
        players = @libraries.transform_values { |lib| Player.new(@ruby, lib, comparison.row) }
        costs = play(comparison, players)
        comparison.add(*costs.values_at(:tree, :reference)) unless comparison.failure
      ensure
        players&.each_value(&:stop)
      end

      # @return [Hash{Symbol => Array<Float>}] the costs of each, turn by turn
      def play(comparison, players)
        order = players.to_a
        costs = players.transform_values { [] }
        attempt(comparison, order) { |_, player| player.ready }
        TURNS.times do
          attempt(comparison, order) { |name, player| costs[name] << player.turn }
          order.reverse!
        end
        costs
      end

      # Until one of them fails.
      def attempt(comparison, players)
        players.each do |name, player|
          break if comparison.failure

          yield name, player
        rescue Error => error
          comparison.fail(name, error.message)
        end
      end
    end
  end
end
