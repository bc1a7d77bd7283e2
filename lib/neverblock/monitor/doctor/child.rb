# frozen_string_literal: true

require "json"
require "open3"
require "rbconfig"

module NB
  class Doctor
    # A separate Ruby process in a project's folder that answers one question in JSON. Whatever it
    # loads and defines stays there.
    class Child
      # Seconds within which it has to compute a little: a boot takes minutes on a busy machine, and
      # one that waits for a server forever is not to take as long.
      PATIENCE = 60
      # So often, at most.
      ROUNDS = 20
      # The path of this NeverBlock, for applications that require it without Bundler.
      LIB = File.expand_path("../../..", __dir__)
      private_constant :LIB, :ROUNDS

      # @param folder [String]
      # @param patience [Numeric] seconds, see {PATIENCE}
      def initialize(folder, patience: PATIENCE)
        @folder = folder
        @patience = patience
      end

      # @param script [String] Ruby; prints JSON
      # @return [Hash{String => Object}, String] its answer, or why there is none
      # @scheduling always waits
      def ask(script)
        out, errors, status = run(script)
        return "it has done nothing for #{@patience} s" unless status
        return JSON.parse(out) if status.success?

        errors.lines.map(&:strip).find { |line| !line.match?(/\A(\S+:\d+: warning:.*)?\z/) } ||
          "it ended with status #{status.exitstatus} and no message"
      end

      private

      def run(script)
        command = [RbConfig.ruby, "-I#{LIB}", "-e", script]
        Open3.popen3(*command, chdir: @folder, pgroup: true) do |input, *pipes, child|
          input.close
          readers = pipes.map { |pipe| Thread.new { pipe.read } }
          next [*readers.map(&:value), child.value] if ended?(child)

          kill(child)
          readers.map(&:value)
        ensure
          kill(child) # at Ctrl-C: Open3 waits for its end, and it has a process group of its own
          readers&.each { |reader| reader.kill.join } # before Open3 closes what they read
        end
      end

      # With its children.
      def kill(child)
        Process.kill(:KILL, -child.pid) if child.alive?
      rescue Errno::ESRCH
        nil # it has just ended
      end

      def ended?(child)
        before = 0.0
        ROUNDS.times do
          return true if child.join(@patience)

          used = seconds(child.pid)
          return false unless used && used - before > @patience / 1000.0

          before = used
        end
        false
      end

      # @return [Float, nil] of CPU time; nil where the system does not tell
      def seconds(pid)
        columns = File.read("/proc/#{pid}/stat").rpartition(") ").last.split
        columns.values_at(11, 12).sum(&:to_f) / 100
      rescue SystemCallError
        nil
      end
    end
  end
end
