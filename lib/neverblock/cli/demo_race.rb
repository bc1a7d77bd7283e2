# frozen_string_literal: true

require "json"
require_relative "terminal"

module NB
  module CLI
    # A race: each server is asked for the same number of pages at the same time, by a C program of
    # its own. Shows how far each one is.
    class DemoRace
      # Width of a bar, in characters.
      WIDTH = 32
      # Width of the text beside it.
      BESIDE = 46
      # Seconds between two updates.
      STEP = 0.1
      # Pages before the clock starts.
      WARM_UP = 60
      # One running server.
      Runner = Struct.new(:name, :server, :out, :err, :pid, :history, :result, keyword_init: true)
      private_constant :Runner

      # @param program [String] bench/rivals/c_mix.c
      # @param clients [Integer]
      # @param pages [Integer]
      # @scheduling never waits
      def initialize(program, clients:, pages:)
        @program = program
        @clients = clients
        @pages = pages
      end

      # Asks for some pages before the clock starts, because the first ones load and compile code.
      #
      # @param servers [Array<#port>]
      # @return [void]
      # @scheduling always waits
      def warm_up(servers)
        pids = servers.map do |server|
          Process.spawn(@program, server.port.to_s, "10", WARM_UP.to_s, "0", "/",
                        out: File::NULL, err: File::NULL)
        end
        pids.each { |pid| Process.wait(pid) }
      end

      # @param servers [Hash{String => #port}] by name
      # @return [Hash{String => Hash}] the report of c_mix on each, and its "history", an Array of
      #   [seconds, pages]
      # @scheduling always waits
      def run(servers)
        runners = servers.map { |name, server| launch(name, server) }
        start = now
        drawn = false
        until runners.all?(&:result)
          IO.select(runners.reject(&:result).map(&:err), nil, nil, STEP)
          runners.reject(&:result).each { |runner| advance(runner, now - start) }
          drawn = draw(runners, now - start, again: drawn) if Terminal.live?($stdout)
        end
        draw(runners, now - start, again: drawn)
        runners.to_h { |runner| [runner.name, runner.result] }
      ensure
        runners&.each { |runner| [runner.out, runner.err].each(&:close) }
      end

      private

      def launch(name, server)
        out, out_end = IO.pipe
        err, err_end = IO.pipe
        pid = Process.spawn(@program, server.port.to_s, @clients.to_s, @pages.to_s, "0", "/",
                            out: out_end, err: err_end)
        [out_end, err_end].each(&:close)
        Runner.new(name: name, server: server, out: out, err: err, pid: pid, history: [[0, 0]])
      end

      # The program prints the number of answers ten times a second.
      def advance(runner, seconds)
        text = runner.err.read_nonblock(65_536)
        runner.history << [seconds, text.lines.last.to_i]
      rescue IO::WaitReadable
        nil
      rescue EOFError
        finish(runner)
      end

      def finish(runner)
        Process.wait(runner.pid)
        text = runner.out.read
        raise ::Bench::Error, "#{runner.name} gave no answers" if text.empty?

        runner.result = JSON.parse(text)
        runner.history << [runner.result["elapsed"], runner.result["answers"]]
        runner.result.merge!("history" => runner.history,
                             "memory_mb" => runner.server.memory_mb)
      end

      def draw(runners, seconds, again:)
        print "\e[#{runners.size}A" if again
        runners.each do |runner|
          puts "#{"\e[2K" if Terminal.live?($stdout)}#{line(runner, seconds)}"
        end
        true
      end

      def line(runner, seconds)
        done = runner.history.last.last
        width = (Terminal.width($stdout) - BESIDE).clamp(1, WIDTH)
        full = (done.to_f / @pages * width).round
        seconds = runner.result["elapsed"] if runner.result
        format("  %-16s %s%s %4d of %d  %5.1f s%s", runner.name, "█" * full, "░" * (width - full),
               done, @pages, seconds, runner.result ? " ✓" : "")
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
