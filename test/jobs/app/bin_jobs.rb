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
SolidQueue::Cli.start(ARGV)
