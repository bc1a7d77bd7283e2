# frozen_string_literal: true

require_relative "../loop/dump"
require_relative "../loop/fork"
require_relative "../sync/task"

# What {NB.dump} says of tasks, and what becomes of them in a forked child.
NB::Fork.in_child { NB::Task.forked }

# Looked for when somebody asks, so that a task costs nothing more.
NB::Dump.name_fibers do
  ObjectSpace.each_object(NB::Task).filter_map { |task| [task.fiber, task.inspect] if task.fiber }
end

NB::Dump.append do
  NB::Task.unseen.map do |task|
    "#{task.inspect}, and nobody has waited for it: #{task.error.class} (#{task.error.message})"
  end
end
