# frozen_string_literal: true

require "fileutils"
require "json"
require "time"

module Bench
  # The samples of one table in one file: a line that describes machine and session, then one line
  # per sample, each written when it is there. Later sessions are added below.
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
    # @return [void]
    def open_session(ruby, machine, options)
      FileUtils.mkdir_p(File.dirname(path))
      write(kind: "session", at: Time.now.utc.iso8601, ruby: ruby.key, label: ruby.label,
            description: ruby.description, machine: machine, options: options)
    end

    # @param step [Order::Step]
    # @param sample [Hash]
    # @return [Run]
    def add(step, sample)
      line = { kind: "run", at: Time.now.utc.iso8601, load: Machine.load_average,
               params: step.params, pass: step.pass, again: step.again, sample: sample }
      write(line)
      Run.new(JSON.parse(JSON.generate(line)))
    end

    # Notes why a runtime has no rows.
    #
    # @param runtime [String]
    # @param reason [String]
    # @return [void]
    def missing(runtime, reason)
      write(kind: "missing", runtime: runtime, reason: reason)
    end

    # The last session of each Ruby.
    #
    # @return [Array<Hash>] "session", "missing" and "runs" of each
    # @raise [Bench::Error] when the file is broken before its last line
    def sessions
      found = {}
      current = nil
      each_line do |line|
        case line.fetch("kind")
        when "session"
          current = found[line["ruby"]] = { "session" => line, "missing" => {}, "runs" => [] }
        when "missing" then current["missing"][line["runtime"]] = line["reason"]
        when "run" then current["runs"] << Run.new(line)
        end
      end
      found.values
    end

    private

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
