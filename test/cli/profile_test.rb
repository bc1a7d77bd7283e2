# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "tmpdir"
require_relative "../support/program"

# `nb profile` as a user runs it.
class ProfileCommandTest < Minitest::Test
  parallelize_me! # each has a folder of its own

  def setup = @dir = Dir.mktmpdir("nb-profile")
  def teardown = FileUtils.rm_rf(@dir)

  def profile(*words, **options) = Program.nb("profile", *words, chdir: @dir, **options)
  def graph(path = Dir["#{@dir}/profile-*.speedscope.json"].first) = JSON.parse(File.read(path))

  def test_runs_the_script_and_tells_where_the_time_went
    File.write("#{@dir}/script.rb", <<~'RUBY')
      p ARGV, __FILE__, $0
      NB.async { sleep 0.03 }
      puts DATA.read
      __END__
      end
    RUBY
    out, err, status = profile("script.rb", "-o", "--help")
    assert_equal "[\"-o\", \"--help\"]\n\"script.rb\"\n\"script.rb\"\nend", out.chomp
    assert_equal 0, status.exitstatus, err
    assert_match(/^ +0\.\d+ +0\.\d+ +1  sleep  script\.rb:2 \(block in <main>\)$/, err)
    assert_match(/^Flame graph: profile-\d+\.speedscope\.json; open it at /, err)
    assert_includes(graph["shared"]["frames"].map { |frame| frame["name"] }, "(sleep)")
  end

  [["-o", "x/y.json"], ["-ox/y.json"], ["--out", "x/y.json"], ["--out=x/y.json"]].each do |words|
    define_method("test_writes_where_#{words.join("_")}_says") do
      _, err, status = profile(*words, "-w", "-e", "sleep 0.001")
      assert_equal 0, status.exitstatus, err
      assert_equal 2, graph("#{@dir}/x/y.json")["profiles"].size
    end
  end

  def test_tells_also_of_a_script_that_ends_by_an_error_or_exit
    _, err, status = profile("-e", "sleep 0.002; raise 'no'")
    assert_equal 1, status.exitstatus
    assert_match(/^Profile of pid.*^-e:1:in [`'].*no \(RuntimeError\)$/m, err)
    _, err, status = profile("-e", "sleep 0.002; exit 5")
    assert_equal 5, status.exitstatus
    assert_match(/^Flame graph/, err)
  end

  def test_a_forked_child_writes_none
    _, err, = profile("-e", "Process.wait(fork { sleep 0.001 }); fork; sleep 0.01")
    assert_equal 1, Dir["#{@dir}/*.json"].size
    assert_equal 1, err.scan("Profile of pid").size
  end

  # What a library has started before, such as one in RUBYOPT, is that library's.
  def test_leaves_a_profile_alone_that_goes_on_already
    File.write("#{@dir}/early.rb", <<~RUBY)
      $:.unshift(#{File.expand_path("../../lib", __dir__).inspect})
      require "neverblock"
      NB::Profile.start
      at_exit { p NB::Profile.stop.class }
    RUBY
    env = {"RUBYOPT" => "-r#{@dir}/early.rb"}
    out, err, status = Open3.capture3(env, *Program::NB, "profile", "-e", "p 1", chdir: @dir)
    assert_equal ["NB::Profile\n", 1], [out, status.exitstatus]
    assert_match(/\Anb profile: NB::Profile: this process is profiled already/, err)
    assert_empty Dir["#{@dir}/*.json"]
  end

  def test_bad_words_are_one_sentence
    File.write("#{@dir}/file", "")
    {%w[-o] => "-o needs a value", %w[] => "needs a script, or -e CODE",
     %w[none.rb] => "no such file: none.rb", %w[-o x.json --nothing] => "invalid option: --nothing",
     %w[-o file/x.json -e 1] => "-o: cannot use this folder: "}.each do |words, message|
      out, err, status = profile(*words)
      assert_empty out
      assert_match(/\Anb profile: #{Regexp.escape(message)}/, err)
      assert_includes [1, 2], status.exitstatus
      assert_operator err.lines.size, :<=, 2, err
    end
  end

  def test_a_disk_that_is_full_is_one_sentence
    _, err, status = profile("-o", "/dev/full", "-e", "sleep 0.001")
    assert_match(/^the flame graph was not written: No space left on device/, err)
    assert_equal 0, status.exitstatus
  end
end
