# frozen_string_literal: true

require "socket"

require_relative "turns"

module Bench
  # What a cell does: plain Ruby that knows no scheduler. A subclass per file in bench/workloads/.
  #
  # The usual one defines {#round}, a piece of work that takes some 50 ms to 500 ms and returns how
  # many operations it did; it is repeated until the sample is long enough. One whose result is not
  # a rate defines {#measure}.
  class Workload
    # A wait that ends this much before its time counts as early (rounding of Float seconds).
    ROUNDING = 1e-6

    class << self
      # @param name [String] "tcp_echo"
      # @return [Class] Bench::Workloads::TcpEcho
      def named(name)
        Workloads.const_get(name.split("_").map(&:capitalize).join)
      end

      # The same work in plain C: a program of bench/rivals/ that prints the sample.
      #
      # @param _params [Hash] of the cell
      # @param _seconds [Float]
      # @return [Array] the program's name and its arguments
      def rival(_params, _seconds)
        raise NotImplementedError, "#{self} has no rival in C"
      end

      # @param runtime [Runtime]
      # @param order [Hash] :params, :seconds, :gems, and :turns if the cell is one of several
      # @return [Hash] what the cell prints
      def run(runtime, order)
        if runtime.in_c?
          become(*rival(self::DEFAULTS.merge(order.fetch(:params)), order.fetch(:seconds)))
        end
        made(runtime, order).run.merge(gems: versions(order.fetch(:gems, {})))
      end

      # @param runtime [Runtime]
      # @param order [Hash] :params, :seconds and :turns
      # @return [Workload] not run yet
      def made(runtime, order)
        params = self::DEFAULTS.merge(order.fetch(:params))
        runtime.params = params
        new(runtime, params, order.fetch(:seconds), turns: (Turns.new if order[:turns]))
      end

      private

      # Replaces this process.
      def become(program, *arguments)
        exec(Compiled.program(program), *arguments.map(&:to_s))
      end

      def versions(gems)
        Gem.loaded_specs.transform_values { |spec| spec.version.to_s }.slice(*gems.keys.map(&:to_s))
      end
    end

    # @return [Runtime]
    attr_reader :runtime
    # @return [Hash] parameters of this cell
    attr_reader :params
    # @return [Float] how long a sample must last at least
    attr_reader :seconds

    # @param runtime [Runtime]
    # @param params [Hash]
    # @param seconds [Float]
    # @param turns [Turns, nil] nil: it works without a break
    def initialize(runtime, params, seconds, turns: nil)
      @turns = turns
      @rested = 0.0
      @runtime = runtime
      @params = params
      @seconds = seconds
      @errors = 0
      @metrics = {}
      @notes = []
    end

    # @return [String, nil] what went wrong first
    attr_reader :first_error

    # @return [Hash] the sample
    def run
      before
      sample = runtime.run do
        prepare
        measure
      end
      after
      sample.merge(errors: @errors, first_error: @first_error, metrics: @metrics, notes: @notes)
    end

    # Outside the runtime: child processes, files.
    def before; end

    # Inside the runtime, before the clock runs.
    def prepare; end

    # Outside the runtime again.
    def after; end

    # A few rounds, for a caller that decides when.
    #
    # @param least [Float] CPU seconds that they take together at least
    # @return [Float] CPU seconds of an operation
    def turn(least)
      began = cpu_seconds
      operations = spent = 0
      while spent < least
        operations += round
        spent = cpu_seconds - began
      end
      spent / operations
    end

    # One piece of work.
    #
    # @return [Integer] operations done
    def round
      raise NotImplementedError, "#{self.class} needs #round or its own #measure"
    end

    # Repeats {#round} until the sample is long enough, at least once; the first round is not
    # counted.
    #
    # @return [Hash] :value (operations per second), :elapsed, :cpu, :operations
    def measure
      round
      GC.start
      operations = 0
      sample = timed do
        loop do
          operations += round
          break unless running?(seconds)
        end
      end
      @metrics[:cpu_us_per_op] = sample[:cpu] / operations * 1e6
      sample.merge(value: operations / sample[:elapsed], operations: operations)
    end

    # @yield the work to be timed
    # @return [Hash] :elapsed and :cpu in seconds; children that were waited for are counted, the
    #   turns of others are not
    def timed
      rest
      cpu = cpu_seconds
      collecting = GC.stat(:time)
      @rested = 0.0
      @started = now
      yield
      elapsed = worked
      @metrics[:gc_ms] = GC.stat(:time) - collecting
      { elapsed: elapsed, cpu: cpu_seconds - cpu }
    end

    # Asked between two pieces of work, when nothing is under way: others may have their turn here.
    #
    # @param limit [Float] seconds
    # @return [Boolean] whether less than limit has passed since the clock of {#timed} started
    def running?(limit)
      return false unless worked < limit

      give_way
      true
    end

    # Between two pieces of work: others have their turn if this one's has lasted long enough.
    #
    # @return [void]
    def give_way
      rest if @turns&.over?
    end

    # Lets the cells work that this one is compared with. Nothing may be under way that uses the
    # machine; a workload that cannot stop it overrides this, and ends in one turn.
    #
    # @return [void]
    def rest
      @rested += @turns.rest if @turns
    end

    # Runs jobs side by side and waits for all. A job that raises counts as an error.
    #
    # @param count [Integer]
    # @yieldparam index [Integer]
    # @return [void]
    def gather(count)
      done = Thread::Queue.new
      count.times do |index|
        runtime.start do
          done << attempt { yield index }
        end
      end
      count.times { done.pop }
    end

    # @yield something that may fail
    # @return [Object, nil] its value, nil when it raised
    def attempt
      yield
    rescue StandardError => error
      wrong("#{error.class}: #{error.message}")
    end

    # Counts an error unless the condition holds.
    #
    # @param condition [Object]
    # @param message [String]
    def expect(condition, message)
      wrong(message) unless condition
    end

    # @param message [String] kept of the first error only
    # @return [nil]
    def wrong(message)
      @errors += 1
      @first_error ||= message
      nil
    end

    # Sleeps and counts an error when woken early.
    #
    # @param duration [Float] seconds
    def sleep_exactly(duration)
      started = now
      sleep(duration)
      slept = now - started
      expect(slept >= duration - ROUNDING, "sleep(#{duration}) returned after #{slept}")
    end

    # @return [Float] seconds of the monotonic clock
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    private

    def worked = now - @started - @rested

    def cpu_seconds
      times = Process.times
      Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + times.cutime + times.cstime
    end
  end

  # The workloads of bench/workloads/.
  module Workloads; end
end
