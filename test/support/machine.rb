# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require "tmpdir"
require_relative "clock"

# Finds out when the machine itself stood still. A virtual machine that has used up its share stops
# for 20 to 40 ms at a time. A process that sleeps on such a CPU wakes late, although it neither
# computed nor waited for the CPU; a blocking call looks the same. So a process on each CPU does
# nothing but wake every 5 ms and record when it was late in that way. No test is blamed for that
# time.
#
#   Machine.watch { system("ruby a_test.rb") }   in the program that runs tests
#   Machine.stalled(from, to)                    in a test
module Machine
  extend Clock

  INTERVAL = 0.005
  # Shorter standstills are not recorded.
  LEAST = 0.005
  # The environment variable with the folder of the records.
  FOLDER = "NB_MACHINE"
  # The bytes of a schedstat file that contain the time in the queue for a CPU.
  HEAD = 80
  private_constant :HEAD

  module_function

  # @yield while it is watched; processes spawned there can ask
  # @return what the block does
  def watch
    return yield if ENV[FOLDER] || !File.exist?("/proc/thread-self/schedstat")

    Dir.mktmpdir("nb-machine") do |folder|
      ENV[FOLDER] = folder
      watchers = cpus.map { |cpu| spawn_watcher(cpu, folder) }
      yield
    ensure
      ENV.delete(FOLDER)
      watchers&.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) }
    end
  end

  # @param from [Float] of the monotonic clock
  # @param to [Float]
  # @return [Float] seconds in between during which a CPU stood still, the longest of all CPUs; 0.0
  #   if nobody watches
  def stalled(from, to)
    return 0.0 unless ENV[FOLDER]

    since = clock - to
    sleep(4 * INTERVAL - since) if since < 4 * INTERVAL # a watcher may be as late as we were
    Dir["#{ENV.fetch(FOLDER)}/*"].map { |file| overlap(File.foreach(file), from, to) }.max || 0.0
  end

  # Writes to $stdout from when to when this CPU stood still. Ends with its parent.
  def write_down
    $stdout.sync = true
    $stdout.puts("0 0") # it has begun
    parent = Process.ppid
    File.open("/proc/thread-self/schedstat") do |state|
      last = look(state)
      while Process.ppid == parent
        before = last
        sleep INTERVAL
        last = look(state)
        wall, cpu, queued = last.zip(before).map { |later, earlier| later - earlier }
        late = wall - cpu - queued - INTERVAL
        $stdout.puts("#{last[0] - late} #{last[0]}") if late >= LEAST
      end
    end
  end

  def overlap(lines, from, to)
    lines.sum(0.0) do |line|
      began, ended = line.split.map(&:to_f)
      [[ended || 0, to].min - [began, from].max, 0].max
    end
  end

  # In seconds: wall clock, on a CPU, waiting for one.
  def look(state)
    [clock, Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID),
     state.pread(HEAD, 0).split[1].to_i / 1e9]
  end

  # @return [Array<Integer>] the CPUs this process may use; a few are enough
  def cpus
    list = File.read("/proc/self/status")[/^Cpus_allowed_list:\s+(\S+)/, 1]
    ranges = list.split(",").map { |range| range.split("-").map(&:to_i) }
    ranges.flat_map { |ends| [*ends.first..ends.last] }.first(8)
  end

  def spawn_watcher(cpu, folder)
    Process.spawn({ "RUBYOPT" => nil }, "taskset", "-c", cpu.to_s, RbConfig.ruby, "--disable-gems",
                  "-r", __FILE__, "-e", "Machine.write_down", in: File::NULL,
                  out: "#{folder}/cpu#{cpu}", err: File::NULL)
  end

  private_class_method :overlap, :look, :cpus, :spawn_watcher
end
