# frozen_string_literal: true

module Bench
  # Takes samples while the machine is ours: it watches other programs *while* a row of cells works
  # by turns. If they computed, it waits until they have stopped, and takes the row again. After
  # some tries it keeps the samples, but marks them, and no pair is made of them.
  class Sampler
    # The most repeats of a row.
    MOST = 3
    # The most seconds to wait for others before each repeat.
    PATIENCE = 20

    # @param busy [Boolean] keep every sample, whatever others do
    # @param neighbours [Neighbours]
    # @param pause [#call] lets some time pass, in which others are watched
    def initialize(busy: false, neighbours: Neighbours.new, pause: -> { sleep(1) })
      @busy = busy
      @neighbours = neighbours
      @pause = pause
    end

    # @param discard [#call] gets the samples of each row that will be repeated
    # @yieldreturn [Array<Hash>] a sample of each cell
    # @return [Array<Hash>] the samples, with "others" and, if it was not the first, "repeats"
    def take(discard, &row)
      (0..).each do |repeats|
        wait if repeats.positive?
        found, others = @neighbours.watch(&row)
        found = found.map { |sample| marked(sample, others, repeats) }
        return found if others <= Neighbours::LIMIT || keep?(found, repeats)

        discard.call(found)
      end
    end

    private

    def marked(sample, others, repeats)
      sample.merge({ "others" => others.round(3),
                     "repeats" => repeats.positive? ? repeats : nil }.compact)
    end

    def keep?(found, repeats)
      @busy || repeats == MOST || found.any? { |sample| sample["failure"] }
    end

    def wait
      PATIENCE.times do
        _, others = @neighbours.watch { @pause.call }
        return if others <= Neighbours::LIMIT
      end
    end
  end
end
