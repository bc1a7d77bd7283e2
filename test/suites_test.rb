# frozen_string_literal: true

require "minitest/autorun"
require "fileutils"
require "json"
require "open3"
require "rbconfig"
require "tmpdir"
require_relative "../rakelib/c_tests"

# How `bin/test` runs suites on several Rubies: side by side, or one after the other; and what it
# prints. The Rubies and what suites do on them are played.
class SuitesTest < Minitest::Test
  RUNNER = File.expand_path("../rakelib/suites.rb", __dir__)
  PLAYS = <<~'RUBY'
    def note(text) = File.write("notes", text + "\n", mode: "a")
    def wait_for(text)
      3000.times { File.read("notes").lines(chomp: true).include?(text) ? return : sleep(0.02) }
      abort "no: " + text
    end
    name = "#{ARGV.first.delete_prefix("test:")} #{ENV.fetch("NB_PLAYED")}"
    note("begin " + name)
  RUBY
  RED = <<~TEXT
    == test/legacy/a_test.rb (0.1 s)
    Run options: --seed 5
      1) Failure:
    ATest#test_b [test/legacy/a_test.rb:9]:
    no
    1 runs, 1 assertions, 1 failures, 0 errors, 0 skips
  TEXT

  def setup = @folder = Dir.mktmpdir("nb-suites")
  def teardown = FileUtils.rm_rf(@folder)

  # @param does [Hash{String => String}] what a suite does on a Ruby
  # @return [Array<String>] the lines about suites, without times
  def play(names, versions, jobs:, does: {})
    cases = does.map { |name, program| "if name == #{name.dump}\n#{program}\nend\n" }
    File.write("#{@folder}/play.rb", "#{PLAYS}#{cases.join}note(\"end \" + name)\n")
    out, @status = Open3.capture2e(RbConfig.ruby, "-e", <<~RUBY, chdir: @folder)
      require #{RUNNER.dump}
      ruby = Struct.new(:version, :api, :environment, :rake)
      rubies = #{versions}.map do |version|
        ruby.new(version, version[/\\d+\\.\\d+/],
                 {"NB_PLAYED" => version, "NB_RUNNER" => Process.pid.to_s},
                 [RbConfig.ruby, "--disable-gems", "#{@folder}/play.rb"])
      end
      exit Suites.new(#{names}, rubies: rubies, jobs: #{jobs}).run
    RUBY
    @out = out
    out.scan(/^(\w+) +(\d+\.\d+\.\d+) +(.*) \(\d+ s\)$/).map { |words| words.join(" ") }
  end

  # @return [Array<String>] what began, each of which ended before the next
  def one_by_one
    notes = File.readlines("#{@folder}/notes", chomp: true).each_slice(2).to_a
    notes.map do |begun, ended|
      assert_equal begun.sub("begin", "end"), ended
      begun.delete_prefix("begin ")
    end
  end

  def passed(*names) = names.map { |name| "#{name} 1 passed, 0 failed" }

  # The first suite of the one goes on until the other Ruby has ended its first.
  def test_rubies_run_side_by_side_in_opposite_orders
    lines = play(%w[legacy jobs], %w[3.1.2 3.4.5], jobs: 2,
                 does: { "legacy 3.1.2" => "wait_for('end legacy 3.4.5')" })
    assert_equal passed("legacy 3.1.2", "jobs 3.4.5", "jobs 3.1.2", "legacy 3.4.5"), lines, @out
    assert_predicate @status, :success?
    assert_match(/^4 passed, 0 failed \(\d+ s\)$/, @out)
  end

  def test_with_one_job_one_runs_after_the_other
    names = ["legacy 3.1.2", "legacy 3.4.5", "jobs 3.1.2", "jobs 3.4.5"]
    assert_equal passed(*names), play(%w[legacy jobs], %w[3.1.2 3.4.5], jobs: 1), @out
    assert_equal names, one_by_one
  end

  # They share logs and a build.
  def test_rubies_of_one_version_run_one_after_the_other
    play(%w[legacy jobs], %w[3.4.4 3.4.5], jobs: 2)
    assert_equal ["legacy 3.4.4", "legacy 3.4.5", "jobs 3.4.4", "jobs 3.4.5"], one_by_one
  end

  def test_more_rubies_than_jobs
    lines = play(%w[docs legacy], %w[3.1.2 3.4.5 3.3.8], jobs: 2)
    assert_equal passed("docs 3.1.2", "legacy 3.4.5", "legacy 3.1.2", "legacy 3.3.8"), lines, @out
  end

  def test_what_fails_beside_others
    lines = play(%w[legacy jobs], %w[3.1.2 3.4.5], jobs: 2,
                 does: { "legacy 3.4.5" => "puts #{RED.dump}; exit 1", "jobs 3.1.2" => "abort" })
    assert_equal ["legacy 3.1.2 1 passed, 0 failed", "jobs 3.4.5 1 passed, 0 failed",
                  "jobs 3.1.2 0 passed, 1 failed", "legacy 3.4.5 0 passed, 1 failed"], lines, @out
    assert_equal 1, @status.exitstatus
    assert_includes @out, "    ATest#test_b [test/legacy/a_test.rb:9]:\n    no"
    assert_includes @out, "-- the whole of it: tmp/log/jobs-3.1.log"
    assert_equal RED, File.read("#{@folder}/tmp/log/legacy-3.4.log")
    again = ["test/legacy/a_test.rb", "-n", "/\\A(test_b)\\z/", "--seed", "5", "--ruby", "3.4"]
    assert_equal [again], JSON.parse(File.read("#{@folder}/tmp/failed.json"))
  end

  # Also of those behind one that still ran.
  def test_an_interrupted_run_tells_of_all_that_have_ended
    interrupt = "wait_for('begin legacy 3.4.5'); Process.kill(:INT, ENV['NB_RUNNER'].to_i); sleep"
    lines = play(%w[legacy jobs], %w[3.1.2 3.4.5], jobs: 2, does: { "legacy 3.1.2" => interrupt })
    assert_includes lines, passed("jobs 3.4.5").first, @out
    assert_equal Signal.list["INT"], @status.termsig
  end

  def test_what_runs_beside_an_error_has_ended_when_that_is_raised
    FileUtils.mkdir_p("#{@folder}/tmp/log/jobs-3.1.log") # no log can have this name
    lingers = "trap('TERM') { sleep 0.5; note('ended'); exit }; note('waits'); sleep"
    play(%w[legacy jobs], %w[3.1.2 3.4.5], jobs: 2,
         does: { "legacy 3.1.2" => "wait_for('waits')", "jobs 3.4.5" => lingers })
    assert_includes @out, "EISDIR"
    assert_equal "ended", File.readlines("#{@folder}/notes", chomp: true).last
  end

  # The server's tests on every Ruby use the same program.
  def test_a_program_stays_while_another_ruby_compiles_it
    FileUtils.mkdir_p("#{@folder}/tmp/c-played")
    File.write("#{@folder}/tmp/c-played/a_test", "old")
    File.write("#{@folder}/a_test.c", "")
    File.write("#{@folder}/cc", <<~'SH', perm: 0o755)
      #!/bin/sh
      while [ "$1" != -o ]; do shift; done
      printf new >"$2"
      cat tmp/c-played/* >seen
    SH
    target = CTests::Target.new(name: "played", compiler: "#{@folder}/cc", flags: [], runner: [])
    Dir.chdir(@folder) { assert CTests.compile("a_test.c", target) }
    assert_equal "oldnew", File.read("#{@folder}/seen")
    assert_equal ["#{@folder}/tmp/c-played/a_test"], Dir["#{@folder}/tmp/c-played/*"]
    assert_equal "new", File.read("#{@folder}/tmp/c-played/a_test")
  end

  def test_what_cannot_be_a_number_of_jobs
    { %w[--jobs 0] => "--jobs must be a number from 1, got: 0",
      %w[c] => "NB_JOBS must be a number from 1, got: all",
      %w[--jobs 2 test/suites_test.rb] => "--jobs goes with suites",
      %w[--jobs 2 --failed] => "--jobs goes with suites" }.each do |words, text|
      out, status = Open3.capture2e({ "NB_JOBS" => "all" }, RbConfig.ruby, RUNNER, *words)
      assert_equal "bin/test: #{text}\n", out
      refute_predicate status, :success?
    end
  end
end
