# frozen_string_literal: true

require "fileutils"
require "json"
require "time"

module Bench
  # The samples of one table in one file: a line that describes machine and session, then one line
  # per sample, each written when it is there. Later sessions are added below, and none is lost.
  class Journal
    # @param directory [String]
    # @param table_id [String]
    def initialize(directory, table_id)
      @path = File.join(directory, "#{table_id}.jsonl")
    end

    # @return [String]
    attr_reader :path

    # @param ruby [RubyTarget]
    # @param machine [Hash]
    # @param options [Hash] how the session was started
    # @param settings [Hash{String => String}] runtime => how it is set up
    # @param resumes [Boolean] whether it goes on where the last session of this Ruby ended
    # @return [void]
    def open_session(ruby, machine, options, settings: {}, resumes: false)
      FileUtils.mkdir_p(File.dirname(path))
      write(kind: "session", at: Time.now.utc.iso8601, ruby: ruby.key, label: ruby.label,
            description: ruby.description, machine: machine, options: options,
            settings: settings, resumes: resumes)
    end

    # @param step [Order::Step]
    # @param sample [Hash]
    # @return [Run]
    def add(step, sample)
      line = line(step, sample)
      write(line)
      Run.new(JSON.parse(JSON.generate(line)))
    end

    # Keeps a sample that is taken again, because other programs computed beside it.
    #
    # @param step [Order::Step]
    # @param sample [Hash]
    # @return [void]
    def discard(step, sample) = write(line(step, sample).merge(kind: "discarded"))

    # Notes why a runtime has no rows.
    #
    # @param runtime [String]
    # @param reason [String]
    # @return [void]
    def missing(runtime, reason)
      write(kind: "missing", runtime: runtime, reason: reason)
    end

    # All that was measured, in series: a session and those that went on where it had ended.
    #
    # @return [Array<Hash>] "sessions" (their lines), "missing" and "runs" of each, by Ruby, then by
    #   time
    # @raise [Bench::Error] when the file is broken before its last line
    def series
      found = []
      number = -1
      each_line do |line|
        case line.fetch("kind")
        when "session"
          number += 1
          found << begin_or_go_on(found, line)
        when "missing" then found.last["missing"][line["runtime"]] = line["reason"]
        when "run" then found.last["runs"] << Run.new(line, number)
        end
      end
      found.group_by { |one| one["sessions"].first["ruby"] }.values.flatten
    end

    private

    def begin_or_go_on(found, line)
      same = ->(one) { one["sessions"].first["ruby"] == line["ruby"] }
      series = found.delete(found.reverse.find(&same)) if line["resumes"]
      series ||= { "sessions" => [], "missing" => {}, "runs" => [] }
      series.tap { |one| one["sessions"] << line }
    end

    def line(step, sample)
      { kind: "run", at: Time.now.utc.iso8601, load: Machine.load_average,
        params: step.params, pass: step.pass, again: step.again, sample: sample }
    end

    def write(line)
      File.write(path, "#{JSON.generate(line)}\n", mode: "a")
    end

    # An interrupted write leaves half a line at the end, which is no loss; elsewhere it is.
    def each_line
      lines = File.readlines(path)
      lines.each_with_index do |text, index|
        line = begin
          JSON.parse(text)
        rescue JSON::ParserError
          break if index == lines.size - 1

          raise Error, "#{path}:#{index + 1} is no JSON"
        end
        yield line
      end
    end
  end
end
