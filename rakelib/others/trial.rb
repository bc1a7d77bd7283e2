# frozen_string_literal: true

require "fileutils"
require "json"
require "rbconfig"

module Others
  # Runs a suite once, in a process group of its own. A test that says nothing for half a minute has
  # hung: the process is killed, and another one runs the rest.
  class Trial
    PATIENCE = 30
    # So many tests may hang, or end their process.
    PROCESSES = 12
    RECORDER = File.expand_path("recorder.rb", __dir__)
    LIB = File.expand_path("lib")

    def initialize(suite, folder, inside:)
      @suite = suite
      @folder = folder
      @inside = inside
      @file = "#{folder}/results-#{suite.name}-#{inside ? "inside" : "plain"}.jsonl"
      @lost = {}
    end

    # @return [Hash{String => Array(String, String)}] each test's fate (passed, failed, skipped,
    #   hung, ended: it took the process with it) and what it said
    def run
      FileUtils.rm_f(@file)
      PROCESSES.times do
        fate = run_process
        lost = unfinished or break
        @lost[lost] = [fate, ""]
      end
      Trial.fates(lines).merge(@lost)
    end

    # A test may have several results, such as one of its teardown: the worst counts.
    def self.fates(lines)
      lines.each_with_object({}) do |(fate, name, text), fates|
        next if fate == "start" || fates.dig(name, 0) == "failed"

        fates[name] = [fate, text.to_s]
      end
    end

    private

    def lines = File.exist?(@file) ? File.foreach(@file).map { |line| JSON.parse(line) } : []

    # @return [String, nil] the test that had started and has no result
    def unfinished
      fate, name = lines.last
      name if fate == "start" && !@lost.key?(name)
    end

    def run_process
      log = @file.sub(/jsonl\z/, "log")
      pid = Process.spawn(environment, *command, chdir: @folder, in: File::NULL, out: log,
                                                 err: %i[child out], pgroup: true)
      watch(Process.detach(pid))
    ensure
      kill(pid)
    end

    def watch(process)
      size = nil
      until process.join(PATIENCE)
        return "hung" if size == (size = File.size?(@file))
      end
      "ended"
    end

    # Also what the tests have left behind.
    def kill(pid)
      Process.kill(:KILL, -pid)
    rescue SystemCallError
      nil
    end

    def environment
      clean = ENV.keys.grep(/\A(BUNDLE|RUBYOPT|RUBYLIB|GEM_|NB_)/).to_h { |name| [name, nil] }
      clean.merge("OTHERS_RESULTS" => @file, "OTHERS_INSIDE" => ("1" if @inside),
                  "OTHERS_LEFT_OUT" => @lost.keys.join("\n"), "LC_ALL" => "C.UTF-8")
    end

    def command
      [RbConfig.ruby, "-W0", "-I#{LIB}", "-r#{RECORDER}", @suite.runner,
       "--test-order=alpha", "--timeout-scale=3", *@suite.paths]
    end
  end
end
