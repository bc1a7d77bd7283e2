# frozen_string_literal: true

module Soak
  # Cuts an activity off at a random point. Not a StandardError: no activity may swallow it.
  class Cut < Exception; end # rubocop:disable Lint/InheritException

  # One fiber that does random activities. What an activity opens it hands to {#hold}, so that
  # whatever cut it off, the worker can close it; what is left after that is a leak of the loop.
  class Worker
    # What faults may raise in an activity; anything else is a failure.
    EXPECTED = [
      Timeout::Error, EOFError, IOError, Errno::ECONNRESET, Errno::EPIPE, Errno::ECONNREFUSED,
      Errno::EMFILE, Errno::ETIMEDOUT, Errno::ECONNABORTED, OpenSSL::SSL::SSLError, SocketError
    ].freeze

    attr_reader :done, :fiber

    # @param round [Round]
    # @param random [Random]
    def initialize(round, random)
      @round = round
      @random = random
      @done = Hash.new(0)
      @held = []
      @pids = []
      @threads = []
    end

    def run
      @fiber = Fiber.current
      until @round.over?
        activity = Activities::NAMES.sample(random: @random)
        @done[outcome(activity)] += 1
        clean
      end
      @ended = true
    end

    # @return [Boolean] whether it has worked until the round was over
    def ended? = @ended

    # @return [Boolean] whether it may be cut off now
    def open_to_cuts? = @open

    # @return [IO] io, to be closed when the activity has ended
    def hold(io) = io.tap { @held << io }
    def pid(pid) = pid.tap { @pids << pid }
    def thread(&block) = Thread.new(&block).tap { |thread| @threads << thread }

    attr_reader :random, :round

    private

    def outcome(activity)
      @open = true
      Activities.new(self).public_send(activity)
      :"#{activity} done"
    rescue Cut
      :cut
    rescue *EXPECTED => error
      error.class.name
    rescue StandardError => error
      @round.failed("#{activity}: #{error.full_message(highlight: false, order: :top)}")
      :failed
    ensure
      @open = false
    end

    # A cut that was sent just before the activity ended may come in one of these waits.
    def clean
      @held.pop.then { |io| close(io) } until @held.empty?
      @threads.pop.join until @threads.empty?
      reap(@pids.last) && @pids.pop until @pids.empty?
    rescue Cut
      retry
    rescue StandardError => error
      @round.failed("cleaning: #{error.full_message(highlight: false, order: :top)}")
    end

    def close(io)
      io.close unless io.closed?
    rescue Cut
      @held << io
      raise
    rescue *EXPECTED
      io.to_io.close # TLS could not say goodbye
    end

    def reap(pid)
      Process.kill(:KILL, pid)
      Process.wait(pid)
      true
    rescue Errno::ECHILD, Errno::ESRCH
      true # its activity waited for it
    end
  end
end
