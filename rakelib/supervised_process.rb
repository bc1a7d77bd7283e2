# frozen_string_literal: true

require "rbconfig"

# A running program that ends with its starter, together with all that it has started: databases,
# browsers, and what has a process group or a session of its own. This holds however the starter
# ends, also by `kill -9`: a process between the two sees the end of a pipe that only the starter
# writes to. It also ends what the program leaves behind.
#
#   process = SupervisedProcess.start({}, "ruby", "a_test.rb", out: "log")
#   process.wait(60) # a Process::Status, or nil: it still runs
#   process.terminate # ends it, if it has not ended
#
# On Linux the process in between adopts whoever has lost its parent. Elsewhere, such a process is
# not found and goes on.
class SupervisedProcess
  # Seconds for a program to end after SIGTERM, and for the kernel to end what was killed.
  GRACE = 10

  # @param environment [Hash{String => String, nil}] for the program alone
  # @param streams as for Process.spawn
  # @return [SupervisedProcess]
  def self.start(environment, *command, **streams)
    environment = {"RUBYOPT" => ENV.fetch("RUBYOPT", nil), **environment}
    unset, set = environment.partition { |_, value| value.nil? }
    words = ["env", *unset.flat_map { |name,| ["-u", name] }, *set.map { |pair| pair.join("=") }]
    reader, writer = IO.pipe
    pid = Process.spawn({"RUBYOPT" => nil}, RbConfig.ruby, "--disable-gems", __FILE__,
                        reader.fileno.to_s, *words, *command, reader => reader, **streams)
    reader.close
    new(pid, writer)
  end

  # @return [Integer] of the process in between; its group is the program's, if that has its own
  attr_reader :pid

  def initialize(pid, writer)
    @pid = pid
    @writer = writer
    @ended = Process.detach(pid)
  end

  # @param seconds [Numeric, nil] at most; nil: forever
  # @return [Process::Status, nil] the program's; nil if it still runs
  def wait(seconds = nil) = @ended.join(seconds)&.value

  # Ends the program and all that it has started.
  # @return [Process::Status] the program's
  def terminate
    @writer.close
    @ended.value
  end

  # The process in between.
  class Supervisor
    # Linux's prctl(2), whose constant this is, by machine.
    PR_SET_CHILD_SUBREAPER = 36
    PRCTL = {"x86_64" => 157, "aarch64" => 167}.freeze
    private_constant :PR_SET_CHILD_SUBREAPER, :PRCTL

    # @param fd [Integer] the end of a pipe
    # @param command [Array<String>]
    def initialize(fd, command)
      @pipe = IO.for_fd(fd).tap { |io| io.close_on_exec = true }
      @command = command
      @leads = Process.getpgrp == Process.pid
    end

    # Does not return: ends as the program does.
    def run
      adopt
      trap("QUIT") {} # for the program only; a block, because an ignored signal would be inherited
      %w[TERM INT HUP].each { |name| trap(name) { Thread.new { let_go } } }
      @program = Process.spawn(*@command)
      Process.setpgid(0, 0) # out of a group that the program shares with the starter
      Thread.new { @pipe.read && let_go }
      status = status_of(@program)
      end_others
      end_as(status)
    end

    private

    def adopt
      number = PRCTL[RbConfig::CONFIG["host_cpu"]]
      syscall(number, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) if number && File.directory?("/proc/self")
    end

    # Its own group ends with it. The group of the starter may also be that of others.
    def let_go
      return if @let_go

      @let_go = now
      signal(:TERM, @leads ? -Process.pid : @program)
      sleep GRACE
      signal(:KILL, @program)
    end

    def status_of(program)
      loop do
        pid, status = Process.wait2
        return status if pid == program
      end
    end

    # In good order where the starter has let go: whoever is told to end may first end its own.
    def end_others
      start = @let_go || (now - GRACE)
      told = []
      until now > start + (2 * GRACE)
        if now < start + GRACE
          (children[Process.pid] - told).each { |pid| told << pid && signal(:TERM, pid) }
        else
          descendants.each { |pid| signal(:KILL, pid) }
        end
        Process.wait(-1, Process::WNOHANG) || sleep(0.01)
      end
    rescue Errno::ECHILD
      nil # there is nobody left
    end

    # A shell can die of every signal; in Ruby some are a crash.
    def end_as(status)
      exit!(status.exitstatus) if status.exited?
      exec("/bin/sh", "-c", "ulimit -c 0; kill -#{status.termsig} $$")
    end

    def descendants
      all = children
      found = [Process.pid]
      found.each { |pid| found.concat(all[pid]) }
      found.drop(1)
    end

    # @return [Hash{Integer => Array<Integer>}] the children of each process
    def children
      parents.each_with_object(Hash.new { [] }) { |(pid, parent), all| all[parent] += [pid] }
    end

    # @return [Array<Array(Integer, Integer)>] each process, and its parent
    def parents
      return `ps -A -o pid= -o ppid=`.lines.map { |line| line.split.map(&:to_i) } unless
        File.directory?("/proc/self")

      Dir["/proc/[0-9]*/stat"].filter_map do |file|
        [Integer(file[/\d+/]), Integer(File.read(file).rpartition(")").last.split[1])]
      rescue SystemCallError
        nil # it has ended
      end
    end

    def signal(name, pid)
      Process.kill(name, pid)
    rescue Errno::ESRCH, Errno::EPERM
      nil # it has ended, or is another user's
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

SupervisedProcess::Supervisor.new(Integer(ARGV.shift), ARGV).run if $PROGRAM_NAME == __FILE__
