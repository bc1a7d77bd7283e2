# frozen_string_literal: true

module NB
  # How many jobs of background queues run in this process, how many have ended and how, and how
  # long they took: the `nb_jobs…` of `/metrics`. Whoever runs a job reports it here.
  #
  # @api private
  module JobCounts
    # How a run of a job ends. A retried one has been enqueued again, a discarded one has been given
    # up, both after an error; a stopped one is to run again.
    STATUSES = %i[done failed retried discarded stopped].freeze

    @begun = {}.compare_by_identity # what stands for a job => when it began
    @ended = STATUSES.to_h { |status| [status, 0] }
    @seconds = 0.0

    class << self
      # @param job [Object] the same again at its end
      # @return [void]
      # @thread any
      def begin(job) = @begun[job] = clock

      # @param job [Object]
      # @param status [Symbol] of {STATUSES}
      # @return [void]
      # @thread any
      def end(job, status)
        began = @begun.delete(job) or return
        @ended[status] += 1 # no thread comes between a look and its entry
        @seconds += clock - began
      end

      # @return [Hash{Symbol=>Integer, Hash, Float}] `running`, `ended` by status, `seconds`
      def to_h = { running: @begun.size, ended: @ended.dup, seconds: @seconds }

      # In a forked child.
      #
      # @return [void]
      def forked
        @begun.clear
        @ended.transform_values! { 0 }
        @seconds = 0.0
      end

      private

      def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
