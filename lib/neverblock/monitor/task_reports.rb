# frozen_string_literal: true

require_relative "../legible"
require_relative "../loop/dump"
require_relative "../loop/fork"
require_relative "../sync/task"

# What {NB.dump} says about tasks, and what happens to tasks in a forked child.
NB::Fork.in_child { NB::Task.forked }

# Looked up only when somebody asks, so a task costs nothing more.
NB::Dump.name_fibers do
  ObjectSpace.each_object(NB::Task).filter_map { |task| [task.fiber, task.inspect] if task.fiber }
end

NB::Dump.append do
  NB::Task.unseen.map do |task|
    "#{task.inspect}, and nobody has waited for it: #{task.error.class} " \
      "(#{NB::Legible.line(task.error.message)})"
  end
end
