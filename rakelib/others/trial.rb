# frozen_string_literal: true

require "fileutils"
require "json"
require "rbconfig"
require_relative "surroundings"
require_relative "test_gems"

module Others
  # Runs a suite once, in a process group of its own. A test that says nothing for that long has
  # hung: the process is killed, and another one runs the rest.
  class Trial
    PATIENCE = 45
    # So many times as long may it load, before the first test.
    LOADING = 6
    # So many tests may hang, or end their process.
    PROCESSES = 12
    # They have an extension, and are loaded as the gems that our own tests use.
    COMPILED = %w[curb eventmachine mysql2 nio4r openssl patron pg pitchfork puma semian sqlite3
                  thin trilogy].freeze
    LIB = File.expand_path("lib")
    # Nor does http's suite ask for simplecov then. ruby/spec starts other programs by RUBY_EXE.
    ONE_BY_ONE = { "MT_CPU" => "1", "NOCOV" => "1", "SIMPLECOV_DISABLE" => "1",
                   "RUBY_EXE" => RbConfig.ruby }.freeze
    REQUIRE_ALL = "%s.each { |file| require file }"

    # @param lost [Hash{String => Array(String, String)}] tests that hung in another run: left out
    def initialize(suite, folder, inside:, lost: {})
      @suite = suite
      @folder = File.join(folder, *suite.part)
      @inside = inside
      @file = "#{@folder}/results-#{suite.name}-#{inside ? "inside" : "plain"}.jsonl"
      @lost = lost.dup
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
      kill(pid) if pid # else the environment could not be made
    end

    def watch(process)
      first = size = File.size?(@file)
      loading = 0
      until process.join(PATIENCE)
        now = File.size?(@file)
        return "hung" if now == size && (now != first || (loading += 1) == LOADING)

        size = now
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
      inside = { "OTHERS_RESULTS" => @file, "OTHERS_INSIDE" => ("1" if @inside),
                 "OTHERS_LEFT_OUT" => @lost.keys.join("\n"), "OTHERS_GEMS" => @suite.gems,
                 "LC_ALL" => "C.UTF-8" }
      nb = ENV.keys.grep(/\ANB_/).to_h { |name| [name, nil] }
      gems = %i[ruby mspec].include?(@suite.kind) ? Rubies.clean : TestGems.environment
      own = Surroundings.new(@suite.server, @folder).environment
      gems.merge(nb, inside, ONE_BY_ONE, own, "PATH" => path(own, gems))
    end

    # The programs that tests start find this Ruby by its name.
    def path(own, gems)
      place = gems["PATH"] ? "#{TestGems.of_project}/bin" : []
      [*own["PATH"], *place, RbConfig::CONFIG["bindir"], ENV.fetch("PATH")].join(":")
    end

    def command
      [RbConfig.ruby, "-W0", "-I#{LIB}", "-r#{__dir__}/recorder_#{@suite.kind}.rb", *tests]
    end

    def tests
      case @suite.kind
      when :ruby
        there = @suite.paths.select { |path| File.exist?("#{@folder}/test/#{path}") }
        ["test/runner.rb", "--test-order=alpha", "--timeout-scale=3", *there]
      when :mspec
        there = @suite.paths.select { |path| File.exist?("#{@folder}/spec/ruby/#{path}") }
        ["#{@folder}/spec/mspec/bin/mspec-run", *there]
      when :minitest
        [*libraries, "-Itest", "-Ispec", "-e", format(REQUIRE_ALL, files.inspect), "--", "--seed",
         "1"]
      when :test_unit
        helper = "-rhelper" if File.exist?("#{@folder}/test/lib/helper.rb")
        [*libraries, "-Itest/lib", "-Itest", "-Itests", *helper, "-e",
         format(REQUIRE_ALL, files.inspect)]
      when :rspec
        helper = %w[--require spec_helper] if File.exist?("#{@folder}/spec/spec_helper.rb")
        [*libraries, "-Ispec", "#{TestGems.of_project}/bin/rspec", "--options", File::NULL,
         "--order", "defined", *helper, *files]
      when :megatest
        [*libraries, "#{TestGems.folder}/bin/megatest", "--seed", "1", "--jobs", "1", *files]
      when :sus
        [*libraries, "-Ifixtures", "#{TestGems.folder}/bin/sus", *files]
      end
    end

    # The project's own, which its tests may take for loaded.
    def libraries
      return [] if COMPILED.include?(@suite.name)

      folders = ["lib", *Dir.children("#{@folder}/lib").grep(/ruby/).map { |name| "lib/#{name}" }]
      folders += Dir["#{@folder}/../*/lib"] if @suite.part # the repository's other parts
      main = "#{@folder}/lib/#{@suite.name}.rb"
      [*folders.map { |folder| "-I#{folder}" }, *("-r#{main}" if File.exist?(main))]
    end

    def files = @suite.paths.flat_map { |path| Dir["#{@folder}/#{path}"] }.uniq
  end
end
