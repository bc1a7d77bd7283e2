# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require "neverblock"
require_relative "../support/program"

# `nb run SCRIPT` does what `ruby SCRIPT` does: each script is run by both and compared.
class RunTest < Minitest::Test
  SCRIPTS = {
    "the script's own names and arguments" => <<~'RUBY',
      p [$0, __FILE__, __FILE__ == $0, $PROGRAM_NAME, __dir__, ARGV, self, __method__]
      def helper = 42
      p Object.private_method_defined?(:helper)
      p defined?(DATA)
    RUBY
    "what follows __END__" => <<~'RUBY',
      text = <<~TEXT
      __END__
      TEXT
      p text.size, DATA.lineno, DATA.pos, DATA.path, DATA.read
      __END__
      düta
      __END__
      more
    RUBY
    "require_relative and load" => <<~'RUBY',
      require_relative "beside"
      load "beside.rb"
    RUBY
    "input from gets" => "p gets, $stdin.read",
    "the end of the script" => "at_exit { p $! }\nEND { puts 'END' }\nputs 1",
    "exit" => "at_exit { p $! }\nbegin; exit 3; ensure; puts 'ensured'; end",
    "exit in a method" => "def leave = exit(true)\nleave",
    "exit!" => "at_exit { puts 'not this' }\n$stdout.sync = true\nputs 1\nexit! 4",
    "abort" => "abort 'no more'",
    "return at top level" => "puts 1\nreturn\nputs 2",
    "an uncaught exception" => <<~'RUBY',
      at_exit { p $!.class }
      class Odd < StandardError; end
      def deep(count) = count.zero? ? raise(Odd, "two\nlines") : deep(count - 1)
      deep 3
    RUBY
    "an uncaught exception with causes" => <<~'RUBY',
      begin
        begin
          nil.upcase
        rescue
          raise KeyError, "middle"
        end
      rescue
        raise ArgumentError, "outer"
      end
    RUBY
    "deep calls" => "def deep(n) = n.zero? ? 0 : [1].sum { 1 + deep(n - 1) }\np deep(800)",
    "its environment" => "p ENV.keys.grep(/STACK/)",
    "a missing constant" => "Strng",
    "an uncaught throw" => "catch(:inner) { throw :outer, 1 }",
    "a syntax error" => "puts 1\ndef\n",
    "a signal that Ruby turns into Interrupt" => "Process.kill(:INT, $$); sleep 5",
    "a signal that ends it" => <<~'RUBY',
      begin; Process.kill(:TERM, $$); sleep 5; ensure; puts "ensured"; end
    RUBY
    "an exception in a thread" => <<~'RUBY',
      Thread.report_on_exception = false
      Thread.new { raise "in the thread" }.join
    RUBY
    "a forked child" => <<~'RUBY',
      $stdout.sync = true
      pid = fork { puts "child"; exit 7 }
      Process.wait(pid)
      p $?.exitstatus
    RUBY
    "a trap" => "trap(:USR1) { puts 'trapped' }; Process.kill(:USR1, $$); sleep 0.05"
  }.freeze

  def in_folder
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "beside.rb"), "p [:beside, __FILE__ == $0, __dir__]\n")
      yield folder
    end
  end

  def both(folder, *arguments, stdin: "")
    [Program::RUBY, [*Program::NB, "run"]].map do |program|
      out, err, status = Open3.capture3(*program, *arguments, stdin_data: stdin, chdir: folder)
      { out: out, err: err, exit: status.exitstatus, signal: status.termsig }
    end
  end

  SCRIPTS.each do |name, script|
    define_method("test_#{name.gsub(/\W+/, "_")}_is_as_under_ruby") do
      in_folder do |folder|
        File.write(File.join(folder, "script.rb"), script)
        plain, ours = both(folder, "script.rb", "one", "-r", "--two", stdin: "first\nsecond\n")
        assert_equal plain, ours
        refute_empty plain[:out] + plain[:err] + plain[:exit].to_s
      end
    end
  end

  def test_options_and_code_are_as_under_ruby
    in_folder do |folder|
      [["-e", "p $0, ARGV, __FILE__", "-e", "p 2", "x"],
       ["-rset", "-r", "./beside", "-e", "p Set.new"],
       ["-I", "a", "-Ib", "-e", "p $:.first(2)"],
       ["-w", "-e", "p $VERBOSE"], ["-e", "require_relative 'beside'"],
       ["-", "x"], ["--", "beside.rb", "x"],
       ["-e", "p __LINE__, caller_locations(0).first.path"]].each do |arguments|
        plain, ours = both(folder, *arguments, stdin: "p ARGV, $0, __FILE__")
        assert_equal plain, ours, arguments.inspect
        assert_equal 0, plain[:exit]
      end
    end
  end

  # As `bundle exec` does, which writes over what the kernel knows of the command line.
  # As a shell hands over the output of a command: script <(command).
  def test_a_pipe_is_a_script_too
    [Program::RUBY, [*Program::NB, "run"]].each do |program|
      reader, writer = IO.pipe
      writer.write("p __FILE__, ARGV")
      writer.close
      out, err, = Open3.capture3(*program, "/dev/fd/9", "one", 9 => reader)
      assert_equal ["\"/dev/fd/9\"\n[\"one\"]\n", ""], [out, err]
    ensure
      reader.close
    end
  end

  def test_runs_under_another_title
    code = "Process.setproctitle('nb run -e p 42'); load $PROGRAM_NAME = ARGV.shift"
    out, err, status = Open3.capture3(RbConfig.ruby, "-e", code, Program::NB.last, "run", "-e",
                                      "p 42, ARGV", "a b", "")
    assert_equal [%(42\n["a b", ""]\n), "", 0], [out, err, status.exitstatus]
  end

  def test_waits_of_the_script_are_waits_of_the_loop
    out, = Program.nb("run", "-e", <<~'RUBY')
      start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      20.times { Fiber.schedule { sleep 0.2; print "." } }
      puts NB.running?
      at_exit { puts Process.clock_gettime(Process::CLOCK_MONOTONIC) - start < 3 }
    RUBY
    assert_equal "true\n#{"." * 20}true\n", out
  end

  def test_backend_and_repairs_can_be_chosen
    out, = Program.nb("run", "--backend", "poll", "-e", "puts NB.stats[:backend]")
    assert_equal "poll\n", out
    best = NB::Native.backends.first
    out, = Program.nb("run", "--backend=#{best}", "--no-repairs", "-e", "puts NB.stats[:backend]")
    assert_equal "#{best}\n", out
  end

  def test_sigquit_prints_what_fibers_wait_for
    _, errors, status = Program.nb("run", "-e", <<~'RUBY')
      Fiber.schedule { sleep 0.3 }
      Process.kill(:QUIT, $$)
      sleep 0.05
    RUBY
    assert_match(/NB::Scheduler.*waiting/, errors)
    assert_match(/waits \d+\.\d+ s for sleep/, errors)
    assert_equal 0, status.exitstatus
  end

  def test_wrong_command_lines_are_refused
    { [] => "needs a script, or -e CODE", %w[--fast x.rb] => "invalid option: --fast",
      %w[-r] => "-r needs a value", %w[nothing.rb] => "no such file: nothing.rb" }
      .each do |arguments, message|
      _, errors, status = Program.nb("run", *arguments)
      assert_equal "nb run: #{message}\nSee: nb help run\n", errors
      assert_equal 2, status.exitstatus
    end
    _, errors, status = Program.nb("run", "--backend", "kqueues", "-e", "1")
    assert_includes errors, "must be one of #{NB::Native.backends.join(", ")}"
    assert_equal 2, status.exitstatus
  end
end
