# frozen_string_literal: true

# What `bin/jobs` of an application is.
require_relative "environment"
require "solid_queue/cli"

# Of jobs, if they have left any: a heartbeat may be on its way when the worker ends.
busy = lambda do |pool|
  pool.connections.count do |connection|
    owner = connection.owner
    owner&.alive? && owner.backtrace.to_a.grep(/heartbeat/).empty?
  end
end

# Those of the process. A socket that is closed while another thread uses one, such as a heartbeat,
# is closed by a thread of the offload pool, which stays for some seconds.
threads = -> { Thread.list.map(&:name) - ["neverblock offload"] }

SolidQueue.on_worker_exit do |worker|
  pool = ActiveRecord::Base.connection_pool
  stat = pool.stat
  Note.create!(kind: "exit", number: 0, pid: Process.pid,
               text: "async #{defined?(Async).inspect}, threads #{threads.call.size}, " \
                     "busy #{busy.call(pool)}, dead #{stat[:dead]}, " \
                     "connections #{stat[:connections]}, #{worker.pool.class}")
end
SolidQueue::Cli.start(ARGV)
