# frozen_string_literal: true

require "open3"
require "rbconfig"
require_relative "interrupts"

# Runs a script in a fresh Ruby: for everything that concerns a whole process (signals, fork, exit
# status).
module Subprocess
  LIB = $LOAD_PATH.find { |directory| File.exist?(File.join(directory, "neverblock.rb")) } ||
        File.expand_path("../../lib", __dir__)
  Result = Struct.new(:out, :err, :status, :hung, keyword_init: true)

  # @param script [String] Ruby source; `require "neverblock"` is done when loaded: true
  # @param env [Hash{String => String, nil}]
  # @param limit [Float] seconds after which it is killed and result.hung is true
  # @return [Result]
  def self.ruby(script, env: {}, limit: 60, loaded: true, options: [])
    command = [RbConfig.ruby, "-W1", "-I", LIB, *options, *("-rneverblock" if loaded), "-e", script]
    run(env, command, limit)
  end

  # Runs any command in the same way. Scripts that block on purpose compare stderr, so the watchdog
  # is silent unless env says otherwise.
  def self.run(env, command, limit)
    env = { "NB_WATCHDOG" => "0", **env }
    Open3.popen3(env, *command, pgroup: true) do |input, out, err, waiter| # rubocop:disable Metrics/ParameterLists
      input.close
      readers = [out, err].map { |io| Thread.new { io.read } }
      hung = waiter.join(limit).nil?
      Process.kill(:KILL, -waiter.pid) if hung
      Result.new(out: readers[0].value, err: readers[1].value, status: waiter.value, hung: hung)
    end
  end
end
