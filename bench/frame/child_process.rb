# frozen_string_literal: true

require "tempfile"

module Bench
  # A process of ours that is told what to do by lines and answers by lines. It is the leader of a
  # process group, so that {#stop} reaches what it has started.
  class ChildProcess
    # @return [IO] what it reads, what it writes
    attr_reader :input, :output

    # @param environment [Hash{String => String}]
    # @param command [Array<String>]
    def initialize(environment, command)
      @errors = Tempfile.new("bench-child")
      input, @input = IO.pipe
      @output, output = IO.pipe
      # What ends us between the start and the assignment would leave a process nobody knows.
      Thread.handle_interrupt(Object => :never) do
        @pid = Process.spawn(environment, *command, in: input, out: output, err: @errors.path,
                                                    pgroup: true)
      end
    ensure
      [input, output].each { |io| io&.close }
    end

    # Waits for its end.
    #
    # @return [Process::Status]
    def status
      Process.wait2(@pid).last.tap { @pid = nil }
    end

    # @return [String, nil] the first line on its standard error that is no warning
    def complaint
      line = File.readlines(@errors.path).grep_v(/warning:/).first
      line&.strip&.sub("#{ROOT}/", "")&.slice(0, 300)
    end

    # Kills it and all it started, unless {#status} has seen its end. May be called twice.
    #
    # @return [void]
    def stop
      Command.end_group(@pid) if @pid
    ensure
      @pid = nil
      [@input, @output].each(&:close)
      @errors.close!
    end
  end
end
