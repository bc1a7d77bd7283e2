# frozen_string_literal: true

module Bench
  # Takes samples while the machine is ours: it watches other programs *during* each sample. If they
  # computed, it waits until they have stopped, and takes the sample again. After some tries it
  # keeps the sample, but marks it, and no pair is made of it.
  class Sampler
    # The most repeats of a sample.
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

    # @param discard [#call] gets each sample that will be repeated
    # @yieldreturn [Hash] a sample
    # @return [Hash] the sample, with "others" and, if it was not the first, "repeats"
    def take(discard, &sample)
      (0..).each do |repeats|
        wait if repeats.positive?
        found, others = @neighbours.watch(&sample)
        found = found.merge("others" => others.round(3))
        found["repeats"] = repeats if repeats.positive?
        return found if @busy || found["failure"] || others <= Neighbours::LIMIT || repeats == MOST

        discard.call(found)
      end
    end

    private

    def wait
      PATIENCE.times do
        _, others = @neighbours.watch { @pause.call }
        return if others <= Neighbours::LIMIT
      end
    end
  end
end
