# frozen_string_literal: true

# Runs commands, as many at a time as there are cores, and reports each as soon as it has ended. A
# command that takes longer than LIMIT seconds is stopped.
#
# Run: LIMIT=10 ruby -Ilib examples/cookbook/children.rb "sleep 1" "false" "echo done"
# Ctrl-C: running commands are stopped, and none is left behind. With on_interrupt: it strikes only
# at waits; without, it could strike between a command's start and the `ensure` that stops it.

require "etc"
require "open3"
require "neverblock"

def call(command)
  Open3.popen2e(command, pgroup: true) do |_, output, process|
    NB.timeout(Float(ENV.fetch("LIMIT", 10))) { output.read + process.value.to_s }
  ensure
    stop(process.pid) if process.alive?
  end
end

def stop(pid)
  Process.kill(:TERM, -pid)
rescue Errno::ESRCH
  nil # it has ended meanwhile
end

NB.run(on_interrupt: :drain, drain_timeout: 0) do
  cores = NB::Limiter.new(Etc.nprocessors)
  calls = ARGV.map do |command|
    -> { [command, cores.with { NB.settle(-> { call(command) }).first }] }
  end
  NB.as_completed(*calls).each do |command, outcome|
    puts "#{command}: #{outcome.value || outcome.error.message}"
  end
rescue Interrupt
  exit 130
end
