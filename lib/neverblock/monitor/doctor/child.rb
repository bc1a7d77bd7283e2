# frozen_string_literal: true

require "json"
require "open3"
require "rbconfig"

module NB
  class Doctor
    # A Ruby of its own in a project's folder, which answers one question in JSON: what it loads
    # and defines stays there.
    class Child
      # Seconds until it must have answered.
      PATIENCE = 60
      # This NeverBlock, for applications that require it without Bundler.
      LIB = File.expand_path("../../..", __dir__)
      private_constant :LIB

      # @param folder [String]
      # @param patience [Numeric] seconds
      def initialize(folder, patience: PATIENCE)
        @folder = folder
        @patience = patience
      end

      # @param script [String] Ruby; prints JSON
      # @return [Hash{String => Object}, String] its answer, or why there is none
      # @scheduling always waits
      def ask(script)
        out, errors, status = run(script)
        return "it takes longer than #{@patience} s" unless status
        return JSON.parse(out) if status.success?

        errors.lines.map(&:strip).find { |line| !line.match?(/\A(\S+:\d+: warning:.*)?\z/) } ||
          "exit #{status.exitstatus} without a word"
      end

      private

      def run(script)
        command = [RbConfig.ruby, "-I#{LIB}", "-e", script]
        Open3.popen3(*command, chdir: @folder, pgroup: true) do |input, *pipes, child|
          input.close
          readers = pipes.map { |pipe| Thread.new { pipe.read } }
          next [*readers.map(&:value), child.value] if child.join(@patience)

          Process.kill(:KILL, -child.pid)
          readers.map(&:value)
        end
      end
    end
  end
end
