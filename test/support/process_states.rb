# frozen_string_literal: true

require "open3"

# What the processes of a group do at this moment, for the message of a test that waits in vain:
# each with its parent, its title, where each of its threads waits in the kernel, and, if gdb is
# there, where in C.
module ProcessStates
  # Frames of C on which a forked child stands that has not come to any code of its own.
  UNBORN = /rb_thread_atfork|after_fork_ruby|pthread_mutex_lock[^\n]*\n[^\n]*sqlite3/
  FRAMES = 25 # of a thread
  GDB_SECONDS = 20

  module_function

  # The youngest first, which are looked at before anything can have changed.
  # @param group [Integer] id of a process group
  # @return [String]
  def of_group(group)
    folders = Dir["/proc/[0-9]*"].sort_by { |folder| -File.basename(folder).to_i }
    texts = folders.filter_map { |folder| state(folder, group) }
    "#{texts.size} processes of group #{group}:\n#{texts.join("\n")}"
  end

  def state(folder, group)
    name, letter, parent, its_group = stat(folder)
    return unless its_group == group

    pid = Integer(File.basename(folder))
    title = File.read("#{folder}/cmdline").tr("\0", " ").strip
    stacks = letter == "Z" ? "" : stacks(pid)
    hung = stacks.match?(UNBORN) ? " HANGS IN ITS FORK" : ""
    head = "#{pid} (#{name}) of #{parent}, #{letter}#{hung}: #{title}"
    [head, *waits(folder), stacks].join("\n  ")
  rescue SystemCallError
    nil # it has ended meanwhile
  end

  # @return [Array] name, state, parent and process group
  def stat(folder)
    text = File.read("#{folder}/stat")
    name = text[/\((.*)\)/m, 1]
    letter, parent, group = text[(text.rindex(")") + 2)..].split
    [name, letter, Integer(parent), Integer(group)]
  end

  def waits(folder)
    Dir["#{folder}/task/*"].map do |task|
      channel, call = %w[wchan syscall].map { |file| File.read("#{task}/#{file}").strip }
      "thread #{File.basename(task)} #{File.read("#{task}/comm").strip}: #{channel}, call #{call}"
    rescue SystemCallError
      "thread #{File.basename(task)}"
    end
  end

  def stacks(pid)
    out, = Open3.capture2("timeout", GDB_SECONDS.to_s, "gdb", "-batch", "-p", pid.to_s,
                          "-ex", "thread apply all bt #{FRAMES}", err: File::NULL)
    out.lines.grep(/\A(Thread|#)/).map { |line| line.strip[0, 200] }.join("\n  ")
  rescue Errno::ENOENT
    ""
  end
end
