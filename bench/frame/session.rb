# frozen_string_literal: true

require "fileutils"
require "tempfile"
require "time"

module Bench
  # Measures tables: makes ready what they need, runs every cell in turn, keeps every sample.
  #
  # @example
  #   Bench::Session.new(tables: Bench.select(%w[a5]), quick: true, only: %w[blocking nb]).run
  class Session
    # Seconds that a sample lasts at least, and passes over all cells.
    FULL = { seconds: 5.0, pairs: 10 }.freeze
    QUICK = { seconds: 1.0, pairs: 3 }.freeze
    # Seconds of a sample at most.
    LONGEST = 3600
    # After so many failures a cell is not tried again.
    GIVE_UP = 2

    # @return [Boolean] whether the user ended it early
    attr_reader :interrupted
    # @return [String] where the samples are
    attr_reader :out

    # @param tables [Array<Table>]
    # @param rubies [Array<RubyTarget>] each table is measured on each
    # @param quick [Boolean] short samples, few passes, fewer columns
    # @param pairs [Integer, nil] passes; nil for the usual number
    # @param seconds [Float, nil] of a sample; nil for the usual length
    # @param only [Array<String>, nil] runtimes to keep; nil for all
    # @param out [String, nil] directory of the JSONL
    # @param delayd [Array<String>, nil] command of another delay server
    # @param progress [Progress]
    def initialize(tables:, rubies: [RubyTarget.new], quick: false, pairs: nil, seconds: nil,
                   only: nil, out: nil, delayd: nil, progress: Progress.new)
      usual = quick ? QUICK : FULL
      @tables = tables
      @rubies = rubies
      @quick = quick
      @pairs = Integer(pairs || usual[:pairs])
      @seconds = Float(seconds || usual[:seconds])
      @only = only
      @out = out || Session.default_out(quick: quick)
      @delayd = delayd
      @progress = progress
      @homes = {}
      @failures = Hash.new(0)
      raise ArgumentError, "pairs: must be 1 or more, got: #{pairs}" if @pairs < 1
      raise ArgumentError, "seconds: must be above 0 and at most #{LONGEST}, got: #{seconds}" unless
        @seconds.positive? && @seconds <= LONGEST
    end

    # @param quick [Boolean]
    # @return [String] a directory that a full run keeps and a quick one does not
    def self.default_out(quick:)
      return File.join(ROOT, "tmp", "bench") if quick

      File.join(HOME, "results", "#{Time.now.strftime("%Y-%m-%d")}-#{Socket.gethostname}")
    end

    # Measures everything. Ctrl-C ends it and keeps what is done.
    #
    # @return [Array<Result>] in the order of the tables, one per Ruby
    # @raise [Bench::Error] when nothing can be measured
    def run
      FileUtils.mkdir_p(@out)
      machine = Machine.describe
      plan = prepare
      @progress.begin(plan.flat_map { |part| part[:steps].map { |step| key(part, step) } })
      with_deferrable_interrupts { plan.each { |part| measure(part, machine) } }
      results
    rescue Interrupt
      @interrupted = true
      results
    ensure
      @launcher&.stop # a cell may still run, whatever ended this
      @progress.clear
    end

    private

    # Ruby's own handler raises at once; this one can be put off by Thread.handle_interrupt.
    def with_deferrable_interrupts
      thread = Thread.current
      previous = trap("INT") { thread.raise(Interrupt) }
      yield
    ensure
      trap("INT", previous || "DEFAULT")
    end

    def results
      @tables.flat_map do |table|
        journal = Journal.new(@out, table.id)
        next [] unless File.exist?(journal.path)

        keys = @rubies.map(&:key)
        Result.from(table, journal).select { |result| keys.include?(result.session["ruby"]) }
      end
    end

    def prepare
      @tables.product(@rubies).map do |table, ruby|
        missing = missing_runtimes(table, ruby)
        steps = Order.steps(table, pairs: @pairs, quick: @quick, only: @only)
        steps.reject! { |step| missing.key?(table.runtime_of(step.params)) }
        { table: table, ruby: ruby, steps: steps, missing: missing }
      end
    end

    def missing_runtimes(table, ruby)
      wanted = table.groups(quick: @quick, only: @only).flatten
      wanted = wanted.map { |cell| table.runtime_of(cell) }.uniq
      wanted.to_h { |id| [id, obstacle(Bench.runtimes.fetch(id), ruby, table.gems)] }.compact
    end

    # Why this Ruby cannot run the runtime; installs and compiles what can be.
    def obstacle(runtime, ruby, gems)
      @obstacles ||= {}
      @obstacles.fetch([runtime.id, ruby.key, gems]) do |key|
        @obstacles[key] = runtime.refusal(ruby.version) || make_ready(runtime, ruby, gems)
      end
    end

    def make_ready(runtime, ruby, gems)
      runtime.compiled.each { |name| Compiled.program(name) }
      complaint = ruby.complaint('require "neverblock"') if runtime.ours?
      return complaint if complaint

      home = @homes[[runtime.id, ruby.key, gems]] = GemHome.new(ruby, runtime, also: gems)
      home.install { |text| @progress.show(text) }
    rescue Error => error
      error.message
    end

    def measure(part, machine)
      table = part[:table]
      return if part[:steps].empty?

      journal = Journal.new(@out, table.id)
      journal.open_session(part[:ruby], machine, options)
      part[:missing].each { |runtime, reason| journal.missing(runtime, reason) }
      with_servers(table, part[:ruby]) do |ports|
        @launcher = Launcher.new(part[:ruby], ports: ports, homes: homes(part[:ruby], table.gems))
        part[:steps].each { |step| take(part, step, journal) }
      end
    end

    def take(part, step, journal)
      @progress.show(describe(part, step))
      cell = key(part, step)
      sample = @failures[cell] < GIVE_UP ? @launcher.call(part[:table], step.params, @seconds) : nil
      return @progress.step(0.0) unless sample

      @failures[cell] += 1 if sample["failure"]
      journal.add(step, sample)
      @progress.step(sample["wall"])
    end

    def with_servers(table, ruby)
      servers = table.servers.to_h do |kind|
        [kind, Server.start(kind, ruby: ruby, delayd: @delayd)]
      end
      yield servers.transform_values(&:port)
    ensure
      servers&.each_value(&:stop)
    end

    def homes(ruby, gems)
      wanted = [ruby.key, gems]
      @homes.filter_map { |(id, *key), home| [id, home] if key == wanted }.to_h
    end

    def options
      { quick: @quick, pairs: @pairs, seconds: @seconds, only: @only }
    end

    def key(part, step) = [part[:table].id, part[:ruby].key, step.params]

    def describe(part, step)
      table = part[:table]
      cell = table.axes.map { |axis| axis.label(step.params[axis.name]) }.join(", ")
      "#{table.id} pass #{step.pass + 1}/#{@pairs}: #{cell}#{" again" if step.again}"
    end
  end
end
