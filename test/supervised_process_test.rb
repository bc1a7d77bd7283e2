# frozen_string_literal: true

require "minitest/autorun"
require "fileutils"
require "io/wait"
require "rbconfig"
require "tmpdir"
require_relative "../rakelib/supervised_process"
require_relative "support/patience"

# What `bin/test` starts ends with it. Everybody below inherits the end of a pipe, as PIPE: where
# the other end finds nothing more to read, nobody is left.
class SupervisedProcessTest < Minitest::Test
  RAKELIB = File.expand_path("../rakelib", __dir__)
  RUBY = [RbConfig.ruby, "--disable-gems"].freeze
  PIPE = 9
  LINUX = RUBY_PLATFORM.include?("linux")

  # Starts others: in its own group, in another as databases are, and as a daemon whose parent has
  # ended.
  PARENT = <<~RUBY.freeze
    reader, writer = IO.pipe
    fork { sleep }
    fork { Process.setpgid(0, 0); writer.write("."); sleep }
    fork { Process.setsid; fork { writer.write("."); sleep }; exit!(0) } if #{LINUX}
    reader.read(#{LINUX ? 2 : 1})
    IO.for_fd(#{PIPE}, autoclose: false).syswrite("started\n")
  RUBY
  STAYS = "#{PARENT}sleep\n".freeze

  def setup
    @folder = Dir.mktmpdir
    @ours, @theirs = IO.pipe
  end

  def teardown
    FileUtils.rm_rf(@folder)
    [@ours, @theirs].each(&:close)
  end

  # Ends the starter once it has started what says so; then nobody is left.
  def assert_all_end(starter, signal, group: false)
    file = "#{@folder}/starter.rb"
    File.write(file, starter)
    pid = Process.spawn(*RUBY, file, PIPE => @theirs, pgroup: true, chdir: @folder)
    @theirs.close
    assert_equal "started\n", @ours.gets
    Process.kill(signal, group ? -pid : pid)
    Process.wait(pid)
    assert_nobody_left
  end

  def assert_nobody_left
    @theirs.close
    assert @ours.wait_readable(Patience::LIMIT), "somebody goes on"
    assert_equal "", @ours.read
  end

  def holding(program, **options)
    "require '#{RAKELIB}/supervised_process'\n" \
      "SupervisedProcess.start({}, *#{[*RUBY, "-e", program]}, **#{options}).wait"
  end

  %i[KILL TERM INT HUP].each do |name|
    define_method("test_all_end_when_the_starter_ends_by_sig#{name.downcase}") do
      assert_all_end(holding(STAYS, pgroup: true), name)
    end
  end

  # `bin/test FILE` shares its group with the tests, which may read the terminal.
  def test_all_end_when_a_starter_in_the_same_group_is_killed
    assert_all_end(holding(STAYS), :KILL)
  end

  def test_all_end_when_the_group_of_the_starter_is_killed
    assert_all_end(holding(STAYS), :KILL, group: true)
  end

  # As `bin/test` runs suites on two Rubies: a rake runs files, each in a supervised process of its
  # own.
  %i[KILL INT].each do |name|
    define_method("test_all_end_when_the_runner_of_suites_ends_by_sig#{name.downcase}") do
      beside = "sleep 0.01 until File.exist?('#{@folder}/other')\n"
      File.write("#{@folder}/a_test.rb", beside + STAYS)
      file = "Dir.chdir(#{File.dirname(RAKELIB).inspect}); require '#{RAKELIB}/test_files'; " \
             "TestFiles.run(['#{@folder}/a_test.rb'])"
      other = "File.write('#{@folder}/other', ''); sleep"
      assert_all_end(<<~RUBY, name)
        require "rubygems"
        require "#{RAKELIB}/suites"
        $stderr.reopen(File::NULL)
        rubies = #{[file, other]}.map.with_index do |program, i|
          Struct.new(:environment, :rake, :version, :api)
            .new({}, [#{RbConfig.ruby.inspect}, "-e", program], "\#{i}.0.0", "\#{i}.0")
        end
        Suites.new(["jobs"], rubies: rubies, jobs: 2).run
      RUBY
    end
  end

  # One whose parent has told it to end, and has ended.
  def test_who_does_not_end_is_killed
    deaf = "%w[TERM INT HUP].each { |name| trap(name, 'IGNORE') }\n#{PARENT}loop { sleep }"
    assert_all_end(holding("fork { #{deaf} }\nsleep", pgroup: true), :KILL)
  end

  def test_all_end_when_they_are_terminated
    process = SupervisedProcess.start({}, *RUBY, "-e", STAYS, PIPE => @theirs)
    assert_equal "started\n", @ours.gets
    assert_equal Signal.list["TERM"], process.terminate.termsig
    assert_nobody_left
  end

  def test_what_a_program_leaves_behind_ends_with_it
    process = SupervisedProcess.start({}, *RUBY, "-e", "#{PARENT}exit!(3)", PIPE => @theirs)
    assert_equal 3, process.wait.exitstatus
    assert_equal "started\n", @ours.gets
    assert_nobody_left
  end

  # Tests end their databases and remove their folders.
  def test_who_is_told_to_end_ends_others_in_good_order
    script = <<~RUBY
      other = fork { sleep }
      at_exit { Process.kill(:INT, other); Process.wait(other); $stdout.syswrite($?.termsig) }
      $stdout.syswrite("started\n")
      sleep
    RUBY
    process = SupervisedProcess.start({}, *RUBY, "-e", script, out: @theirs, err: File::NULL)
    assert_equal "started\n", @ours.gets
    process.terminate
    @theirs.close
    assert_equal Signal.list["INT"].to_s, @ours.read
  end

  # The log says so of a test that has crashed.
  def test_it_ends_as_the_program_does
    %w[SEGV KILL TERM].each do |name|
      status = SupervisedProcess.start({}, "sh", "-c", "ulimit -c 0; kill -#{name} $$").wait
      assert_equal Signal.list[name], status.termsig
    end
    statuses = [0, 7].map { |code| SupervisedProcess.start({}, "sh", "-c", "exit #{code}").wait }
    assert_equal [0, 7], statuses.map(&:exitstatus)
  end

  def test_the_environment_is_the_programs
    ENV["NB_LEASH"] = "kept"
    ENV["NB_GONE"] = "1"
    changes = {"NB_NEW" => "a b=c\n", "NB_GONE" => nil, "RUBYOPT" => "-W0"}
    names = %w[NB_LEASH NB_GONE NB_NEW RUBYOPT]
    script = "p ENV.values_at(*#{names})"
    SupervisedProcess.start(changes, *RUBY, "-e", script, out: @theirs).wait
    assert_equal "#{["kept", nil, "a b=c\n", "-W0"].inspect}\n", @ours.gets
  ensure
    %w[NB_LEASH NB_GONE].each { |name| ENV.delete(name) }
  end
end
