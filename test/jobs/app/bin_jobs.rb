# frozen_string_literal: true

# What `bin/jobs` of an application is.
require_relative "environment"
require "solid_queue/cli"

SolidQueue.on_worker_exit do |worker|
  stat = ActiveRecord::Base.connection_pool.stat
  Note.create!(kind: "exit", number: 0, pid: Process.pid,
               text: "async #{defined?(Async).inspect}, " \
                     "threads #{Thread.list.count}, busy #{stat[:busy]}, dead #{stat[:dead]}, " \
                     "connections #{stat[:connections]}, #{worker.pool.class}")
end
# A child that hangs before it has come to any code of its own, once.
if (file = ENV.fetch("APP_UNBORN", nil))
  Process.singleton_class.prepend(Module.new do
    define_method(:_fork) do
      pid = super()
      Process.kill(:STOP, Process.pid) if pid.zero? && File.exist?(file) && File.delete(file)
      pid
    end
  end)
end
SolidQueue::Cli.start(ARGV)
