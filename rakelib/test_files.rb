# frozen_string_literal: true

require "rbconfig"
require "tempfile"
require_relative "../test/support/machine"
require_relative "supervised_process"

# Runs each test file once, in a process of its own: children, memory maps and garbage of one file
# would slow down the forks, and the waits for children, of another. Files in an Array share one.
# What a file has started ends with it, and all of that with whoever runs the files.
#
#   TestFiles.run(FileList["test/server/**/*_test.rb"], at_once: 2) or abort
#   TestFiles.run([%w[test/a_test.rb test/b_test.rb], "test/c_test.rb"])
module TestFiles
  # Seconds without a beginning or an end of a test after which a process counts as hanging.
  LIMIT = 900
  # The output of each process starts with its file's name, or with this one for several files.
  TOGETHER = "together"
  HEADER = /== (?:\S+_test\.rb|#{TOGETHER}) /.freeze
  # Starts the line about a file that ended without minitest's summary.
  BROKEN = "!! "
  # Loaded first into each process: writes down which test runs.
  CURRENT = File.expand_path("../test/support/current_test", __dir__)

  @running = {} # process => file, and where the name of its running test is

  module_function

  # @param files [Array<String, Array<String>>]
  # @param at_once [Integer] how many processes run at a time
  # @return [Boolean] whether all passed
  def run(files, at_once: 1)
    files.any? or abort "there is no test file to run"
    Machine.watch { failed_of(files.to_a, at_once) { |file| one(file) }.empty? }
  end

  # @yieldreturn [Boolean] whether the file passed
  # @return [Array<String, Array<String>>] those that did not
  def failed_of(files, at_once)
    left = Thread::Queue.new(files).close
    trap("QUIT") { give_up }
    workers = Array.new(at_once) do
      Thread.new do
        failed = []
        while (file = left.pop)
          failed << file unless yield(file)
        end
        failed
      end
    end
    workers.flat_map(&:value)
  end

  def one(file)
    start = now
    output, status = output_of(file)
    fate = fate(name = name(file), output, status)
    $stdout.write(format("== %s (%.1f s)\n%s\n", name, now - start, output), fate)
    $stdout.flush
    fate.empty? && status.success?
  end

  # @return [Array(String, Process::Status)] no status: it hung, and was killed with all it started
  def output_of(file, environment = {})
    reader, writer = IO.pipe
    streams = {out: writer, err: writer, pgroup: true}
    words = file.is_a?(Array) ? [*file.map { |each| "-r./#{each}" }, "-e", ""] : [file]
    process, current = start(words, environment: environment, **streams)
    writer.close
    @running[process] = [name(file), current]
    reading = Thread.new { reader.read.scrub }
    status = status_of(process, current)
    process.terminate
    @running.delete(process)
    [reading.value + interrupted(last_test(current)), status]
  end

  # @return [Process::Status, nil] nil: it hangs
  def status_of(process, current)
    seen = nil
    until (status = process.wait(LIMIT))
      before = seen
      seen = File.mtime(current.path)
      return nil if seen == before
    end
    status
  end

  def name(file) = file.is_a?(Array) ? TOGETHER : file

  # Starts a process with tests.
  # @param words [Array<String>] for Ruby: the file, and what minitest is told
  # @return [Array(SupervisedProcess, Tempfile)] and where the name of the running test is
  def start(words, environment: {}, ruby: RbConfig.ruby, **streams)
    current = Tempfile.new("nb-test")
    process = SupervisedProcess.start(environment.merge("NB_CURRENT_TEST" => current.path), ruby,
                                      "-Ilib:test", "-r#{CURRENT}", *words, in: File::NULL,
                                                                            **streams)
    [process, current]
  end

  # @return [String] the test that was running at the end, or what the file says otherwise
  def last_test(current)
    current.read
  ensure
    current.close!
  end

  # @return [String] for the log of a process that broke off
  def interrupted(test) = test.empty? || ended?(test) ? "" : "\n#{test} was running.\n"

  # @return [Boolean] whether minitest has ended: a test may call exit!(0)
  def ended?(test) = test.match?(/\A[-.]\z/)

  # The suite's time is over: says which files were running. They end with this process.
  def give_up
    @running.each_value do |file, current|
      $stdout.syswrite("#{interrupted(current.read)}#{BROKEN}#{file}: " \
                       "still running when the time of its suite was over\n")
    end
    exit!(1)
  end

  # @return [String] the line about a file that ended without minitest's summary, or that has no
  #   test, or ""
  def fate(file, output, status)
    return "#{BROKEN}#{file}: no test has ended for #{LIMIT} s\n" unless status
    return "#{BROKEN}#{file}: ended by SIG#{Signal.signame(status.termsig)}\n" if status.signaled?
    return "" if output.match?(/^[1-9]\d* runs, /)
    return "#{BROKEN}#{file}: has no test\n" if output.match?(/^0 runs, /)

    "#{BROKEN}#{file}: exit status #{status.exitstatus}\n"
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
