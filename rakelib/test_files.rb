# frozen_string_literal: true

require "rbconfig"
require_relative "../test/support/machine"

# Runs test files once each, in a process of its own: children, memory maps and garbage of one would
# slow down the forks and wait for the children of another.
#
#   TestFiles.run(FileList["test/server/**/*_test.rb"], at_once: 2) or abort
module TestFiles
  # Seconds after which a file counts as hanging.
  LIMIT = 900
  # How the output of each process starts: with its file, or with this for many in one.
  TOGETHER = "together"
  HEADER = /== (?:\S+_test\.rb|#{TOGETHER}) /.freeze
  # How one is told that ended without a word of minitest's.
  BROKEN = "!! "

  @groups = []

  module_function

  # @return [Boolean] whether all passed
  def run(files, at_once: 1) = Machine.watch { run_watched(files, at_once) }

  def run_watched(files, at_once)
    left = Thread::Queue.new(files.to_a).close
    trap("QUIT") { @groups.each { |pid| end_group(pid) } && exit!(1) }
    passed = Array.new(at_once) do
      Thread.new do
        results = []
        while (file = left.pop)
          results << one(file)
        end
        results.all?
      end
    end
    passed.map(&:value).all?
  end

  def one(file)
    start = now
    output, status = output_of([RbConfig.ruby, "-Ilib:test", file])
    $stdout.write(format("== %s (%.1f s)\n%s\n", file, now - start, output),
                  fate(file, output, status))
    $stdout.flush
    status&.success?
  end

  # @return [Array(String, Process::Status)] no status: it hung, and was killed with all it started
  def output_of(command)
    reader, writer = IO.pipe
    pid = Process.spawn(*command, in: File::NULL, out: writer, err: writer, pgroup: true)
    writer.close
    @groups << pid
    reading = Thread.new { reader.read }
    ended = Process.detach(pid)
    status = ended.value if ended.join(LIMIT)
    end_group(pid)
    @groups.delete(pid)
    [reading.value, status]
  end

  # Also what it has left behind, which would hold the pipe.
  def end_group(pid)
    Process.kill(:KILL, -pid)
  rescue SystemCallError
    nil # there is nobody left
  end

  def fate(file, output, status)
    return "#{BROKEN}#{file}: still running after #{LIMIT} s\n" unless status
    return "#{BROKEN}#{file}: ended by SIG#{Signal.signame(status.termsig)}\n" if status.signaled?
    return "" if status.success? || output.match?(/^\d+ runs, /)

    "#{BROKEN}#{file}: exit status #{status.exitstatus}\n"
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
