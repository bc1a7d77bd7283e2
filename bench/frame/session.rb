# frozen_string_literal: true

require "fileutils"
require "socket"

module Bench
  # Measures tables: makes ready what they need, runs every cell in turn, keeps every sample.
  #
  # It decides after 6, 12 and 20 pairs, and continues only with what is undecided.
  # Where time is limited, cells for which it is too short are left out, and named.
  #
  # @example
  #   Bench::Session.new(tables: Bench.select(%w[a5]), quick: true, only: %w[blocking nb]).run
  class Session
    # Seconds that a sample lasts at least, and passes over all cells before each look.
    FULL = { seconds: 5.0, looks: Statistics::RISKS.keys }.freeze
    QUICK = { seconds: 1.0, looks: [3] }.freeze
    # Seconds of a sample at most.
    LONGEST = 3600
    # After so many failures a cell is not tried again.
    GIVE_UP = 2

    # @return [Boolean] whether the user ended it early
    attr_reader :interrupted
    # @return [String] where the samples are
    attr_reader :out
    # @return [Array<String>] cells for which there was no time
    attr_reader :left
    # @return [Array<String>] tables that could not go on where an earlier session ended, and why
    attr_reader :begun_anew

    # @param tables [Array<Table>]
    # @param rubies [Array<RubyTarget>] each table is measured on each
    # @param quick [Boolean] short samples, few passes, fewer columns, and others may compute
    # @param pairs [Integer, nil] passes over all cells, without a look; nil for the usual looks
    # @param seconds [Float, nil] of a sample; nil for the usual length
    # @param only [Array<String>, nil] runtimes to keep; nil for all
    # @param where [Hash{String => Array<String>}] axis => values to keep
    # @param budget [Float, nil] seconds for all that is measured, once everything that it needs is
    #   installed; nil for as long as it takes
    # @param runs [Integer, nil] how often a process of F1 or F2 computes; nil for what tables say
    # @param maps [Integer, nil] what vm.max_map_count is raised to meanwhile
    # @param busy [Boolean] keep samples whatever other programs compute meanwhile
    # @param resume [Boolean] go on where the last session in the directory ended
    # @param out [String, nil] directory of the JSONL
    # @param delayd [Array<String>, nil] command of another delay server
    # @param progress [Progress]
    def initialize(tables:, rubies: [RubyTarget.new], quick: false, pairs: nil, seconds: nil,
                   only: nil, where: {}, budget: nil, busy: quick, resume: false, out: nil,
                   delayd: nil, runs: nil, maps: nil, progress: Progress.new)
      usual = quick ? QUICK : FULL
      @tables = tables
      @rubies = rubies
      @looks = pairs ? [Integer(pairs)] : usual[:looks]
      @options = { quick: quick, pairs: @looks.last, seconds: Float(seconds || usual[:seconds]),
                   only: only, where: where, budget: budget, busy: busy }
      @options.merge!({ runs: runs, maps: maps }.compact)
      @resume = resume
      @out = out || Session.default_out(quick: quick)
      @delayd = delayd
      @progress = progress
      @sampler = Sampler.new(busy: busy)
      @failures = Hash.new(0)
      @left = []
      @begun_anew = []
      check
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
      @machine = Machine.describe
      parts = prepare
      @deadline = now + @options[:budget] if @options[:budget]
      raise Misuse, "nothing to measure: no cell of #{@tables.map(&:id).join(", ")} is left" if
        parts.empty?

      Maps.raised(@options[:maps]) { with_deferrable_interrupts { look_at(parts) } }
      results
    rescue Interrupt
      @interrupted = true
      results
    ensure
      @launcher&.stop # a cell may still run, whatever ended this
      @progress.clear
    end

    # @return [Boolean] whether samples are kept whatever other programs do
    def busy? = @options[:busy]

    private

    def check
      pairs, seconds, budget = @options.values_at(:pairs, :seconds, :budget)
      raise Misuse, "pairs: must be 1 or more, got: #{pairs}" if pairs < 1
      raise Misuse, "seconds: must be above 0 and at most #{LONGEST}, got: #{seconds}" unless
        seconds.positive? && seconds <= LONGEST
      raise Misuse, "budget: must be above 0 s, got: #{budget}" unless
        budget.nil? || budget.positive?

      check_counts
    end

    def check_counts
      runs, maps = @options.values_at(:runs, :maps)
      { runs: runs, maps: maps }.compact.each do |name, count|
        raise Misuse, "#{name}: must be 1 or more, got: #{count}" if count < 1
      end
      return unless runs

      strange = @tables.reject { |table| table.base.key?(:runs) }.map(&:id)
      return if strange.empty?

      known = Bench.tables.values.select { |table| table.base.key?(:runs) }.map(&:id)
      raise Misuse, "runs: only #{known.join(" and ")} have them, not " \
                    "#{strange.join(", ")}"
    end

    # Ruby's own handler raises at once; this one can be put off by Thread.handle_interrupt.
    def with_deferrable_interrupts
      thread = Thread.current
      previous = trap("INT") { thread.raise(Interrupt) }
      yield
    ensure
      trap("INT", previous || "DEFAULT")
    end

    # The last series of each Ruby: what this session has measured, or gone on with.
    def results
      @tables.flat_map do |table|
        journal = Journal.new(@out, table.id)
        next [] unless File.exist?(journal.path)

        found = Result.from(table, journal).group_by { |result| result.session["ruby"] }
        found.values_at(*@rubies.map(&:key)).compact.map(&:last)
      end
    end

    def prepare
      @prerequisites = Prerequisites.new { |text| @progress.show(text) }
      @tables.product(@rubies).filter_map do |table, ruby|
        groups = table.groups(**@options.slice(:quick, :only, :where))
        runtimes = groups.flatten.map { |cell| table.runtime_of(cell) }.uniq
        missing = @prerequisites.missing(table, runtimes, ruby)
        part = Part.new(table, ruby, groups: groups, journal: Journal.new(@out, table.id),
                                     missing: missing, quick: @options[:quick])
        resume(part)
        part unless groups.all?(&:empty?)
      end
    end

    def resume(part)
      return unless @resume

      reason = part.resume(commit: @machine[:commit], seconds: @options[:seconds])
      @begun_anew << "#{part.table.id} on #{part.ruby.label}: #{reason}" if reason
    end

    # Each look goes over all tables, so that an early end leaves something of each.
    def look_at(parts)
      parts.select { |part| part.missing.any? }.each { |part| open_session(part) }
      [0, *@looks].each_cons(2) do |passes|
        again = @looks.last >= Estimate::FEWEST
        blocks = parts.to_h { |part| [part, part.blocks(passes[0]...passes[1], again: again)] }
        @progress.begin(blocks.flat_map do |part, found|
          found.flatten.map { |step| part.key(step) }
        end)
        blocks.each { |part, found| measure(part, found) if found.any? }
      end
    end

    def measure(part, blocks)
      open_session(part)
      with_servers(part) do |ports|
        homes = @prerequisites.homes(part.ruby, part.table.gems)
        @launcher = Launcher.new(part.ruby, ports: ports, homes: homes,
                                            base: @options.slice(:runs))
        blocks.each { |rows| measure_rows(part, rows) }
      end
    end

    # One group of cells; no further pass begins once the time is too short for the rest of them.
    def measure_rows(part, rows)
      rows.each_with_index do |row, index|
        rest = rows.drop(index).flatten
        return leave(part, rest) if late?(part, rest)

        take(part, row)
      end
    end

    def late?(part, steps)
      return false unless @deadline

      # How long a sample really takes, the first pass tells.
      usual = [part.table.lasts, @options[:seconds] + 1].compact.min
      needed = steps.sum { |step| @progress.expected(part.key(step), usual) }
      now + needed > @deadline
    end

    def leave(part, steps)
      steps.each { |step| @progress.step(nil, part.key(step)) }
      @left.concat(steps.map { |step| part.describe(step.params) }.uniq)
    end

    def open_session(part)
      @opened ||= {}
      @opened[part] ||= begin
        settings = part.table.settings
        part.journal.open_session(part.ruby, @machine, @options, settings: settings,
                                                                 resumes: part.resumed?)
        part.missing.each { |runtime, reason| part.journal.missing(runtime, reason) }
        true
      end
    end

    # A cell that has failed too often is left out.
    def take(part, row)
      given_up, row = row.partition { |step| @failures[part.key(step)] >= GIVE_UP }
      given_up.each { |step| @progress.step(nil, part.key(step)) }
      return if row.empty?

      began = now
      samples = launch(part, row)
      each = (now - began) / row.size
      row.zip(samples) do |step, sample|
        @failures[part.key(step)] += 1 if sample["failure"]
        part.journal.add(step, sample)
        @progress.step(each, part.key(step))
      end
    end

    def launch(part, row)
      discard = lambda do |samples|
        row.zip(samples) { |step, sample| part.journal.discard(step, sample) }
      end
      @sampler.take(discard) do
        @launcher.call(part.table, row.map(&:params), @options[:seconds]) do |params|
          @progress.show("#{part.describe(params)}, pass #{row.first.pass + 1}")
        end
      end
    end

    def with_servers(part)
      servers = part.table.servers.to_h do |kind|
        [kind, Server.start(kind, ruby: part.ruby, delayd: @delayd)]
      end
      yield servers.transform_values(&:port)
    ensure
      servers&.each_value(&:stop)
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
