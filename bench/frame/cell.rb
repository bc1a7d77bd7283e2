# frozen_string_literal: true

require "json"

module Bench
  # A cell in a process of its own, which works whenever it has its turn, and prints one line of
  # JSON at its end.
  class Cell
    # @return [Hash, nil] what it printed, or "failure" with the reason; nil while it rests
    attr_reader :sample

    # @param command [Array<String>]
    # @param environment [Hash{String => String}]
    # @param patience [Numeric] seconds that a turn may last
    def initialize(command, environment, patience:)
      @patience = patience
      @wall = 0.0
      @text = +""
      @process = ChildProcess.new(environment, command)
    end

    # Lets it work until its turn is over or it has ended. Its start is its first turn.
    #
    # @return [void]
    def turn
      began = clock
      @started ? @process.input.puts : @started = true
      found = read(began + @patience)
      @wall += clock - began
      finish(found) unless found == :rests
    rescue Errno::EPIPE
      finish(:ended)
    end

    # Ends the process and all it started. Called when it has ended, too.
    #
    # @return [void]
    def stop = @process.stop

    private

    # @return [Symbol] :rests, :ended, or :late when time is over
    def read(deadline)
      until rests?
        rest = deadline - clock
        return :late unless rest.positive? && @process.output.wait_readable(rest)

        @text << @process.output.readpartial(65_536)
      end
      :rests
    rescue EOFError
      :ended
    end

    # Takes the line that says so.
    def rests?
      found = @text.index("#{Turns::OVER}\n")
      @text.slice!(0, found + Turns::OVER.size + 1) if found
    end

    def finish(how)
      @sample = (how == :late ? late : parse).merge("wall" => @wall.round(3))
    end

    def parse
      status = @process.status
      line = @text.lines.last
      return JSON.parse(line) if line && status.success?

      how = status.signaled? ? "killed by signal #{status.termsig}" : "exit #{status.exitstatus}"
      failure("#{how}: #{@process.complaint}")
    rescue JSON::ParserError
      failure("the last line is no JSON: #{line.strip[0, 200]}")
    end

    def late = failure(["no result within #{@patience} s", @process.complaint].compact.join(": "))

    def failure(text)
      { "failure" => text, "errors" => 1, "metrics" => {}, "notes" => [] }
    end

    def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
