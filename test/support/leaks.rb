# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

# What a process holds that a test must give back: fds, threads, children.
module Leaks
  # @return [Hash] what is held now; compare two of them with {.between}
  def self.snapshot = { fds: fds, threads: threads.size, children: children }

  # Idle offload threads are bounded, and end by themselves after some seconds. The thread that
  # watches timeouts stays, as Ruby's own does.
  OURS = ["neverblock offload", "neverblock overtime"].freeze
  def self.threads = Thread.list.reject { |thread| OURS.include?(thread.name) }

  # @return [Array<String>] what is there afterwards but was not before
  def self.between(before, after)
    fds = (after[:fds].to_a - before[:fds].to_a).map { |fd, target| "fd #{fd} -> #{target}" }
    threads = after[:threads] - before[:threads]
    fds << "#{threads} threads: #{self.threads.last(threads).map(&:inspect).join(", ")}" if threads > 0
    fds.concat((after[:children] - before[:children]).map { |pid| "child #{pid}" })
  end

  # The same, but gives threads and closing sockets a moment to disappear.
  def self.since(before, patience: 20)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + patience
    loop do
      left = between(before, snapshot)
      return left if left.empty? || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep 0.005
    end
  end

  # The file that ASan writes to (rake asan), from its first warning on.
  SANITIZER = %r{/log/asan-[\d.]+\z}.freeze
  # @return [Hash{Integer => String}] open fds and what they are
  def self.fds
    Dir.children("/proc/self/fd").each_with_object({}) do |fd, found|
      target = File.readlink("/proc/self/fd/#{fd}")
      found[Integer(fd)] = target unless target.match?(SANITIZER)
    rescue Errno::ENOENT
      next # the fd of this very listing
    end
  end

  # @return [Array<Integer>] pids of children, including dead ones that nobody has waited for
  def self.children
    Dir.children("/proc/self/task").flat_map do |task|
      File.read("/proc/self/task/#{task}/children").split.map(&:to_i)
    rescue SystemCallError
      []
    end
  end
end
# rubocop:enable Layout/LineLength
