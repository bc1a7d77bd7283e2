# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "open3"
require "tmpdir"

# What CI does on Ruby 3.3: only that for which there is time, and a suite that has failed there is
# told. The programs that it calls are played by the shell; each notes that it was called.
class CITest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  # What both Rubies have said: how long each suite took, in seconds.
  TOOK = { "contract" => 100, "server" => 80, "unit" => 60 }.freeze
  ALL = ["test contract", "test server", "test unit"].freeze
  RED = "12 runs, 30 assertions, 1 failures, 0 errors, 0 skips"

  def setup = @folder = Dir.mktmpdir("nb-ci")
  def teardown = FileUtils.rm_rf(@folder)

  # @param there [Array<String>] the Rubies that are there
  # @param builds [String] what building one does
  # @param suites [Hash{String => String}] what a suite does on 3.3
  # @param main [String] what the suites on the main Rubies do after their words
  # @param gems [Integer] seconds that are kept for installing them
  # @param after [Integer] seconds that have passed when it begins
  # @return [Array(Array<String>, String, Integer)] calls, last lines, exit status
  def run_ci(there: %w[ruby34], builds: "", suites: {}, main: "", took: TOOK, gems: 180,
             after: 0)
    there.each { |name| write("opt/#{name}/bin/ruby", "") }
    write("bin/ruby", "#{builds}\nd=#{@folder}/opt/ruby${1/./}/bin; mkdir -p $d; cp bin/ruby $d")
    write("bin/setup", "")
    said = %w[3.1.2 3.4.5].product(took.to_a).map do |ruby, (suite, seconds)|
      format("echo '%-9s %-6s 5 passed, 0 failed (%d s)'", suite, ruby, seconds)
    end
    cases = suites.map { |suite, does| "#{suite}) #{does};;" }
    write("bin/test", "case ${1:-} in '') #{said.join("\n")}\n#{main};;\n#{cases.join("\n")}\nesac")
    script = File.read("#{ROOT}/.ci/run").gsub(%r{/opt/|/usr/local/}) { |path| @folder + path }
      .sub!("gems=180", "gems=#{gems}")
    write(".ci/run", script, plain: true)
    out, status = Open3.capture2e({ "SECONDS" => after.to_s, "NB_RUBIES" => nil },
                                  "#{@folder}/.ci/run")
    [File.readlines("#{@folder}/asked", chomp: true), out.scan(/^Not tested on Ruby (.*)$/).flatten,
     status.exitstatus]
  end

  def write(path, text, plain: false)
    FileUtils.mkdir_p(File.dirname("#{@folder}/#{path}"))
    head = "#!/usr/bin/env bash\necho \"#{File.basename(path)}${*:+ $*}\" >>#{@folder}/asked\n"
    File.write("#{@folder}/#{path}", plain ? text : head + text, perm: 0o755)
  end

  def test_where_it_is_there_its_suites_run
    assert_equal [["test", "ruby 3.3", "setup", *ALL], [], 0], run_ci(there: %w[ruby33 ruby34])
  end

  def test_where_there_is_time_it_is_built
    assert_equal [["test", "ruby 3.3", "setup", *ALL], [], 0], run_ci(after: 4000)
  end

  # 500 s to build it, 180 for its gems, and half as much again as the 100 of contract.
  def test_without_the_time_to_build_it
    assert_equal [["test"], ["3.3: there is no time for it"], 0], run_ci(after: 4300)
    found = run_ci(there: %w[ruby33 ruby34], after: 4300)
    assert_equal [["test", "ruby 3.3", "setup", *ALL], [], 0], [found[0].drop(1), *found[1..]]
  end

  # Where 3.4 was built, that says how long it takes.
  def test_what_building_takes_is_seen
    calls, untested, status = run_ci(there: [], after: 4300)
    assert_equal [["ruby 3.4", "setup"], ["test", "ruby 3.3", "setup", *ALL], [], 0],
                 [calls.first(2).sort, calls.drop(2), untested, status]
  end

  def test_what_cannot_be_built
    assert_equal [["test", "ruby 3.3"], ["3.3: it cannot be built here"], 0],
                 run_ci(builds: "exit 1")
    FileUtils.rm_rf(Dir["#{@folder}/{*,.ci}"])
    calls, untested, status = run_ci(there: [], builds: "exit 1")
    assert_equal [["ruby 3.4", "setup"], ["test", "ruby 3.3"], 0],
                 [calls.first(2).sort, calls.drop(2), status]
    assert_equal ["3.4: it cannot be built here", "3.3: it cannot be built here"], untested
  end

  def test_a_suite_for_which_there_is_no_time
    took = { "contract" => 1, "server" => 300, "unit" => 60 }
    calls, untested, status = run_ci(there: %w[ruby33 ruby34], took: took, after: 4700)
    assert_equal [["test", "ruby 3.3", "setup", "test contract", "test unit"], 0], [calls, status]
    assert_equal ["3.3: there is no time for server"], untested
  end

  # It was not tested, unless something had failed before. There are ten seconds for all.
  { "" => 0, "mkdir -p tmp/log; echo '#{RED}' >tmp/log/contract-3.3.log; " => 1 }
    .each do |said, code|
    define_method("test_a_suite_that_hangs_#{code.zero? ? "" : "and_has_failed_"}is_ended") do
      took = TOOK.transform_values { 1 }
      calls, untested, status = run_ci(there: %w[ruby33 ruby34], took: took, after: 5070, gems: 0,
                                       suites: { "contract" => "#{said}exec sleep 60" })
      assert_equal [["test", "ruby 3.3", "setup", "test contract"], code], [calls, status]
      assert_match(/\A3\.3: contract was ended after \d+ s\z/, untested.first)
      assert_equal %w[server unit], untested.drop(1).map { |line| line[/\w+\z/] }
    end
  end

  def test_a_suite_that_fails_there
    assert_equal [["test", "ruby 3.3", "setup", *ALL], [], 1],
                 run_ci(there: %w[ruby33 ruby34], suites: { "server" => "exit 1" })
  end

  def test_what_fails_on_the_main_rubies
    assert_equal [["test"], [], 1], run_ci(main: "exit 1")
  end
end
