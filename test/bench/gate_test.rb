# frozen_string_literal: true

require_relative "helper"
require_relative "../../bench/gate/command_line"
require_relative "../support/leaks"
require "stringio"

# bin/bench-gate: when a row is slower, what the processes that take turns do, what is refused.
class BenchGateTest < Minitest::Test
  Gate = Bench::Gate
  SLOW = "Fiber.singleton_class.prepend(Module.new { def schedule = 1_000.times { } && super })"
  ROW = Gate::ROWS.find { |row| row.id == "jobs" }

  # @param ratios [Array<Float>] cost of this tree over the reference's, a pair each
  def comparison(ratios)
    Gate::Comparison.new(ROW).tap do |one|
      ratios.each { |ratio| one.add([ratio * 1e-5] * 3, [1e-5] * 3) }
    end
  end

  def test_the_same_cost_is_ok_at_the_first_look
    assert_equal :ok, comparison([1.01, 0.99, 1.0, 1.02, 0.98, 1.0]).verdict(last: false)
  end

  def test_a_slowdown_in_every_pair_is_slower_at_the_first_look
    assert_equal :slower, comparison([1.1, 1.12, 1.09, 1.2, 1.08, 1.1]).verdict(last: false)
  end

  def test_fewer_than_six_pairs_decide_nothing
    assert_equal :open, comparison([1.5] * 5).verdict
  end

  def test_what_is_near_the_limit_is_measured_on
    near = comparison([1.02, 1.07, 1.08, 1.09, 1.1, 1.04])

    assert_equal :open, near.verdict(last: false)
    assert_equal :slower, near.verdict # −6.9 %, all pairs below 0
  end

  def test_a_small_slowdown_is_ok_however_sure_it_is
    assert_equal :ok, comparison([1.03, 1.031, 1.029, 1.03, 1.03, 1.06]).verdict
  end

  def test_a_large_one_of_which_nobody_can_be_sure_is_ok_in_the_end
    unsure = comparison([0.9, 1.1, 1.2, 1.3, 1.1, 1.2])

    assert_equal :open, unsure.verdict(last: false)
    assert_equal :ok, unsure.verdict
  end

  def test_the_limit_is_the_callers
    loose = Gate::Comparison.new(ROW, limit: 0.2)
    6.times { loose.add([1.1e-5], [1e-5]) }

    assert_equal :ok, loose.verdict
  end

  # Turns beside each other are compared: a machine half as fast in the second half is none of
  # ours.
  def test_what_strikes_both_is_no_difference
    one = Gate::Comparison.new(ROW)
    6.times { one.add([1e-5, 1e-5, 2e-5, 2e-5, 2e-5], [1e-5, 1e-5, 2e-5, 2e-5, 1e-5]) }

    assert_in_delta 1.0, one.estimate.ratio
  end

  def test_a_row_that_this_tree_cannot_run_fails_and_one_that_the_reference_cannot_does_not
    broken, new = %i[tree reference].map { |where| comparison([]).tap { |c| c.fail(where, "why") } }

    assert_equal %i[broken new], [broken, new].map(&:verdict)
    refute_predicate table(broken, comparison([1.0] * 6)), :passed?
    assert_predicate table(new, comparison([1.0] * 6)), :passed?
    refute_predicate table(new), :passed? # nothing was measured
  end

  def test_the_table_says_what_is_slower
    out = StringIO.new
    table(comparison([1.25] * 6), comparison([1.0] * 6)).print(out)

    assert_match(/jobs +10\.0 +12\.5 +−20\.0 % +−20\.0 % to −20\.0 % +6  slower$/, out.string)
    assert_match(/Failed: jobs\.$/, out.string)
  end

  # Two processes of each pair, with libraries of their own.
  def test_a_slow_library_is_slower_and_no_process_stays
    before = Leaks.children
    with_library(SLOW) do |slow|
      player = Gate::Player.new(ruby, slow, ROW).ready
      other = Gate::Player.new(ruby, File.join(Bench::ROOT, "lib"), ROW).ready
      costs = Array.new(2) { [player, other].map(&:turn) }.transpose

      assert_operator costs[0].min, :>, costs[1].min * 1.2
    ensure
      [player, other].compact.each(&:stop)
    end
    assert_empty Leaks.children - before
  end

  def test_a_library_that_fails_is_named_with_its_error
    with_library('raise "no such luck"') do |broken|
      libraries = { tree: broken, reference: broken }
      found = Gate::Run.new(libraries, ruby: ruby, rows: [ROW], looks: [6], progress: quiet).call

      assert_equal [:tree, :broken], [found.first.failed_in, found.first.verdict]
      assert_match(/no such luck/, found.first.failure)
    end
  end

  {
    %w[no-such-ref] => 'there is no commit "no-such-ref" here: name a tag, a branch or a hash',
    %w[HEAD HEAD~1] => "name one commit, not 2: HEAD, HEAD~1 (see --help)",
    %w[HEAD -n 5] => "--pairs: must be 6 to 1000, got: 5 (see --help)",
    %w[HEAD -n six] => "invalid argument: -n six (see --help)",
    %w[HEAD --limit 0] => "--limit: must be above 0 and below 100, got: 0.0 (see --help)",
    %w[HEAD -o echo,nothing] => "--only: no row nothing; there are echo, server, client, queue, " \
                                "pipe, jobs, deadlines, sleeps (see --help)",
    %w[HEAD --fast] => "invalid option: --fast (see --help)",
    %w[HEAD -r /no/ruby] => "/no/ruby does not run: No such file or directory - /no/ruby"
  }.each do |words, sentence|
    define_method("test_#{words.join("_")}_is_refused_in_one_sentence") do
      status = nil
      _, said = capture_io { status = Gate::CommandLine.start(words) }

      assert_equal ["bin/bench-gate: #{sentence}\n", 2], [said, status]
    end
  end

  def test_without_a_tag_it_asks_for_a_commit
    Dir.mktmpdir do |empty|
      system("git", "init", "--quiet", empty, exception: true)
      error = assert_raises(Bench::Error) { Gate::Reference.new(nil, root: empty) }

      assert_match(/no release has a tag yet: name a commit/, error.message)
    end
  end

  def test_the_last_releases_tag_is_the_reference
    Dir.mktmpdir do |folder|
      git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.org"]
      system(*git[0, 3], "init", "--quiet", exception: true)
      %w[v1.0.0 v1.1.0 nightly].each do |tag|
        system(*git, "commit", "--quiet", "--allow-empty", "-m", tag, exception: true)
        system(*git, "tag", tag, exception: true)
      end

      assert_equal "v1.1.0", Gate::Reference.new(nil, root: folder).name
    end
  end

  def test_the_program_runs_and_prints_its_options
    out, status = Bench::Command.capture(RbConfig.ruby, File.join(Bench::ROOT, "bin/bench-gate"),
                                         "--help")

    assert_predicate status, :success?
    assert_match(/\Ausage: bin\/bench-gate \[REF\]/, out)
  end

  private

  def table(*comparisons) = Gate::Table.new(comparisons, "HEAD")
  def quiet = Bench::Progress.new(StringIO.new)
  def ruby = @ruby ||= Bench::RubyTarget.new(yjit: false)

  # Ours, with some code after it.
  def with_library(code)
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "neverblock.rb"), <<~RUBY)
        require #{File.join(Bench::ROOT, "lib/neverblock.rb").inspect}
        #{code}
      RUBY
      yield folder
    end
  end
end
