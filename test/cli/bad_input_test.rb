# frozen_string_literal: true

require "minitest/autorun"
require "socket"
require "tmpdir"
require "neverblock"
require_relative "../support/program"

# Whatever is wrong in a command line, or in what it names, is one sentence and a status: no
# backtrace of ours.
class BadInputTest < Minitest::Test
  TCP = "tcp://127.0.0.1:0"
  # Words => what is said. The status is 2: the command line is wrong.
  WRONG = {
    "serve -p 99999" => /a port is a number from 0 to 65535/,
    "serve -p -1" => /--port: a port is a number from 0 to 65535, got: -1/,
    "serve -p x" => /invalid argument: -p x \(must be a number\)/,
    "serve -b foo" => /bind: expected/,
    "serve -b ssl://127.0.0.1:0?cert=no&key=no" => /no file for cert and key: give/,
    "serve -b ssl://127.0.0.1:0?cert=config.ru&key=config.ru" => /certificate/i,
    "serve -b ssl://[bad" => /no file for cert and key/,
    "serve -w x" => /--workers: must be auto or a number, got: "x"/,
    "serve -w 99999999" => /--workers: must be/, "serve --fibers 0" => /--fibers: must be/,
    "serve --bogus" => /invalid option/, "serve none.ru" => /no such file: none.ru/,
    "serve ." => /no such file: \., which is a folder/, "serve a b" => /one rackup file/,
    "serve -C none.rb" => /no such file: none.rb/, "serve -C ." => /no such file: \./,
    "serve -C syntax.rb" => /syntax.rb:1: syntax error.*unexpected end-of-input/,
    "serve -C raises.rb" => /raises.rb:2: oops/,
    "serve -C value.rb" => /fibers: must be/, "serve --control x" => /nb serve: --control: must be/,
    "stats" => /needs the address/, "stats unix://x y" => /takes an address/,
    "stats unix://x stats y" => /takes an address/, "stats config.ru" => /address: must be unix:/,
    "run" => /needs a script/, "run none.rb" => /no such file/, "run ." => /no such file/,
    "run --bogus" => /invalid option/, "run --on-interrupt x -e 1" => /must be drain, got: x/,
    "run --drain-timeout -1 -e 1" =>
      /--drain-timeout: must be seconds from 0 to 999999999, got: "-1"/,
    "serve --drain-timeout -1" => /--drain-timeout: must be seconds from 0 to .*, got: "-1"/,
    "serve --drain-timeout 1e400" => /got: "1e400"/,
    "run --drain-timeout 0x10 -e 1" => /got: "0x10"/, "serve --drain-timeout -0" => /got: "-0"/,
    "run --drain-timeout= -e 1" => /got: ""/, "run -wx -e 1" => /invalid option: -wx/,
    "run --backend none -e 1" => /: --backend: must be one of #{NB::Native.backends.join(", ")}/,
    "run --backend= -e 1" => /: --backend: must be one of #{NB::Native.backends.join(", ")}/,
    "serve -b fd://99999999999999999999" => /nb serve: --bind: expected/,
    "doctor none" => /no such folder/,
    "doctor -x bogus --no-boot" => /--except: unknown check bogus/,
    "doctor -w x" => /invalid argument/,
    "doctor -w 0" => /--workers: must be at least 1/, "doctor a b" => /one folder/,
    "demo rails --pages 0" => /--pages: must be from 1 to 1000000, got: 0/,
    "demo rails --pages 99999999" => /--pages: must be from 1 to 1000000, got: 99999999/,
    "demo --out=" => /--out: must name a folder/, "bench a3 --out=" => /--out: must name a folder/,
    "bench a3 --only=" => /--only: must name a runtime/,
    "bench a3 --delayd=" => /--delayd: must name a command/,
    "demo bogus" => /takes rails or nothing/, "demo --bogus" => /invalid option/,
    "bench bogus" => /no table "bogus"/,
    "bench a3 -s 1e400" => /--seconds: .* at most 3600, got: Inf/,
    "bench --bogus" => /invalid option/, "bench --out" => /missing argument/,
    "delayd -p 99999" => /--port: must be/, "delayd -p x" => /invalid argument/,
    "delayd -d -1" => /--delay: must be/, "delayd -b -1" => /--body: must be/,
    "delayd --bind=" => /--bind: must be an address/, "stats unix://" => /got: unix:/,
    "delayd -w 0" => /--workers: must be/, "delayd x" => /takes no argument/,
    "iotest" => /either -s/, "iotest x" => /takes no argument, only suite or findings; got: "x"/,
    "iotest -l x" => /-l: not a length/, "iotest --bogus" => /invalid option/,
    "rubyhttp x" => /takes no argument, only combine, findings/,
    "iotest -s -c localhost" => /either -s .* or -c/,
    "rubyhttp --impl=" => /-i: unknown: ""; known are stock/,
    "rubyhttp combine ." => /Is a directory: \./,
    "jobs bogus" => /unknown queue "bogus"; known are/,
    "rubyhttp --bogus" => /invalid option/, "help bogus" => /unknown command/,
    "help a b" => /takes one command/, "bogus" => /unknown command/,
    "profile -o . -e 1" => /-o: must name a file, got: "."/,
    "profile --out= -e 1" => /-o: must name a file, got: ""/
  }.freeze
  # The status is 1: the machine has something against it.
  IMPOSSIBLE = {
    "serve -b tcp://no.invalid:80" => /cannot listen: no.invalid: .*: give an address/,
    "serve -b tcp://8.8.8.8:9999" => /cannot listen: .*: no interface has this address/,
    "serve -b unix:///none/x.sock" => /cannot listen: .*: make the folder first/,
    "serve -b fd://77" => %r{cannot listen: .* - fd://77: nobody has handed over a listener},
    "serve -b fd://0" => %r{cannot listen: .* - fd://0: nobody has handed over a listener},
    "serve -b #{TCP} --control unix:///none/x" => /cannot make the control socket: .*: make/,
    "serve -b #{TCP} -w 1 --control unix:///none/x" => /cannot make the control socket/,
    "serve -b #{TCP} --access-log /none/x" => /cannot write the access log: .*make the folder/,
    "serve -b #{TCP} --access-log ." => /cannot write the access log: .*that is a folder/,
    "serve -b #{TCP} --pidfile ." => /cannot write the pidfile: .*that is a folder/,
    "serve -b #{TCP} --pidfile /none/x" => /cannot write the pidfile: .*make the folder/,
    "stats unix:///none" => /nothing answers at unix:\/\/\/none/,
    "stats tcp://no.invalid:80" => /nothing answers at tcp:\/\/no.invalid:80: /,
    "serve -b unix://config.ru" => /cannot listen: .*: that is no socket: remove it/,
    "serve -b #{TCP} --control unix://config.ru" => /control socket: .*: that is no socket/,
    "serve -b unix://#{"x" * 109}" => /cannot listen: .*: a socket's path has at most 108 bytes/,
    "delayd --bind 192.0.2.1" => /cannot listen: .*: --bind must be an address of this machine/,
    "iotest -c no.invalid -n -l 1k" => /nothing listens on no.invalid, port 12345 /,
    "bench a3 -r /bin/true" => %r{/bin/true is no Ruby},
    "profile -o /proc/none/x -e 1" => /-o: cannot use this folder/,
    "bench a3 -q --out /proc/none" => /--out: .*: No such file or directory: \/proc\/none: name/,
    "demo --out config.ru" => /--out: .*: File exists: config.ru: name another/
  }.freeze
  AT_ONCE = 4

  def setup
    @folder = Dir.mktmpdir
    write("config.ru", "run ->(_) { [200, {}, []] }\n")
    write("syntax.rb", "fibers(\n")
    write("raises.rb", "\nraise 'oops'\n")
    write("value.rb", "fibers 'x'\n")
  end

  def teardown = FileUtils.rm_rf(@folder)

  def write(name, text) = File.write(File.join(@folder, name), text)

  def answers(cases)
    left = Thread::Queue.new
    cases.each_key { |words| left << words }
    left.close
    found = {}
    threads = Array.new(AT_ONCE) do
      Thread.new do
        while (words = left.pop)
          found[words] = Program.nb(*words.split, chdir: @folder)
        end
      end
    end
    threads.each(&:join)
    found
  end

  def check(cases, status)
    answers(cases).each do |words, (_, errors, ended)|
      assert_match(cases[words], errors, words)
      assert_equal status, ended.exitstatus, words
      refute_match(/\bin ['`]/, errors, "#{words}: a backtrace")
      assert_equal errors.lines.grep(/\Anb/).size + errors.lines.grep(/\ASee: /).size,
        errors.lines.size, "#{words}: #{errors}"
    end
  end

  # As Rails applications often have it in RUBYOPT: `warn` says nothing then.
  def test_a_ruby_without_warnings_hears_of_errors
    expected = {"bogus" => /unknown command/, "stats unix:///nowhere" => /nothing answers/}
    expected.each do |words, said|
      _, err, = Open3.capture3({"RUBYOPT" => "-W0"}, *Program::NB, *words.split)
      assert_match(said, err)
    end
  end

  def test_a_port_in_use_leaves_the_other_servers_pidfile
    server = TCPServer.new("127.0.0.1", 0)
    write("pid", "1\n")
    [[], %w[-w 1]].each do |words|
      Program.nb("serve", "-b", "tcp://127.0.0.1:#{server.local_address.ip_port}", *words,
        "--pidfile", "pid", chdir: @folder)
      assert_equal "1\n", File.read(File.join(@folder, "pid"))
    end
  ensure
    server&.close
  end

  def test_wrong_command_lines = check(WRONG, 2)
  def test_what_cannot_be_had = check(IMPOSSIBLE, 1)

  def test_a_port_in_use
    server = TCPServer.new("127.0.0.1", 0)
    port = server.local_address.ip_port
    { "serve -b tcp://127.0.0.1:#{port}" => [1, /another process listens there: end it/],
      "serve -w 1 -b tcp://127.0.0.1:#{port}" => [1, /another process listens there: end it/],
      "delayd -p #{port}" => [1, /cannot listen: Address already in use.*: choose another --port/],
      "iotest -s -p #{port}" => [1, /cannot listen on port #{port}: Address already in use: name/] }
      .each { |words, (status, text)| check({ words => text }, status) }
  ensure
    server&.close
  end

  # NeverBlock does not depend on it.
  def test_no_rack
    write("no_rack.rb", <<~RUBY)
      module NoRack
        def require(name) = name == "rack" ? raise(LoadError.new.tap { |e| e.define_singleton_method(:path) { name } }) : super
      end
      Kernel.prepend(NoRack)
    RUBY
    [[], %w[-w 1]].each do |words|
      _, errors, status = Open3.capture3({"RUBYOPT" => "-r./no_rack"}, *Program::NB,
        "serve", "-b", TCP, *words, chdir: @folder)
      assert_match(/\Anb serve: cannot read config.ru: the gem rack is missing: .*\n\z/, errors)
      assert_equal 1, status.exitstatus
    end
  end

  # What the application raises is Ruby's to report, and ends where the application does.
  def test_an_application_that_does_not_load
    files = {"raises.ru" => "\nraise 'oops'\n", "syntax.ru" => "run ->(\n",
             "lacks.ru" => "require 'none_such'\n", "empty.ru" => ""}
    files.each { |name, text| write(name, text) }
    said = {"raises" => /raises.ru:2:.*oops/, "syntax" => /syntax.ru/, "lacks" => /none_such/,
            "empty" => /missing run/}
    answers(files.keys.product(["", " -w 1"]).to_h { |words| ["serve -b #{TCP} #{words.join}", 1] })
      .each do |words, (_, errors, ended)|
        assert_match(said[words[/(\w+)\.ru/, 1]], errors)
        refute_match(/neverblock\/(cli|server)|exe\/nb/, errors, words)
        assert_equal 1, ended.exitstatus
      end
  end

  # Commands and their statuses after Ctrl-C in a terminal, which all of their processes get, once
  # they have said something. What a script does is Ruby's affair: it ends by the signal.
  INTERRUPTED = {
    %w[delayd -p 0] => 0, %w[delayd -p 0 -w 2] => 0, %w[iotest -s -p 0] => 130, %w[rubyhttp] => 130,
    %w[demo] => 130, ["serve", "-b", TCP] => 0, ["serve", "-b", TCP, "-w", "2"] => 0,
    ["run", "-e", "$stdout.sync = true; puts 1; sleep"] => nil
  }.freeze

  INTERRUPTED.each do |words, status|
    define_method("test_ctrl_c_#{words.join("_").gsub(/\W+/, "_")}") do
      words += ["--out", @folder] if words == %w[demo]
      Open3.popen2e(*Program::NB, *words, chdir: @folder, pgroup: true) do |_, output, process|
        first = output.gets
        Process.kill("INT", -process.pid)
        assert process.join(60), "#{first}: hangs"
        rest = output.read
        if status then assert_equal status, process.value.exitstatus, rest
        else assert_equal Signal.list["INT"], process.value.termsig, rest
        end
        refute_match(/neverblock\/\w+.*:in |bench\/\w+.*:in |report_on_exception/, rest)
      ensure
        Process.kill("KILL", -process.pid) if process.alive?
      end
    end
  end

  # A disk is full: Ruby writes what is left at the exit, and says nothing.
  def test_output_that_cannot_be_written
    ["help", "doctor --no-boot"].each do |words|
      errors = File.join(@folder, "errors")
      pid = spawn(*Program::NB, *words.split, chdir: @folder, out: "/dev/full", err: errors)
      assert_equal 1, Process.wait2(pid)[1].exitstatus, words
      assert_match(/\Anb \w+: No space left on device: standard output\n\z/, File.read(errors))
    end
  end

  def test_words_in_no_encoding
    { ["\xFF"] => /\Anb: unknown command "\\xFF"$/,
      ["profile", "\xFF"] => /\Anb profile: no such file/ }.each do |words, said|
      _, errors, status = Program.nb(*words, chdir: @folder)
      assert_match(said, errors.b)
      assert_equal 2, status.exitstatus
    end
  end

  def test_an_empty_name_is_seen
    { %w[doctor] => 'no such folder: ""', %w[run] => 'no such file: ""',
      %w[stats] => 'got: ""', %w[serve --control] => 'got: ""' }.each do |words, said|
      _, errors, status = Program.nb(*words, "", chdir: @folder)
      assert_match(/\Anb #{words.first}: .*#{said}$/, errors)
      assert_equal 2, status.exitstatus
    end
  end

  def test_help_names_no_help_for_help
    _, errors, = Program.nb("help", "bogus")
    assert_equal "nb help: unknown command \"bogus\"\nSee: nb help\n", errors
  end

  # A file that is no rackup file is Ruby code, which makes a constant of the same name.
  def test_an_application_without_a_rackup_file
    write("tiny_app.rb", "TinyApp = ->(_) { [200, {}, []] }\n$stderr.puts 'loaded'\nexit\n")
    _, errors, = Program.nb("serve", "-b", TCP, "tiny_app.rb", chdir: @folder)
    assert_match(/\Aloaded$/, errors)
  end

  # The reader of the output has gone.
  def test_nobody_reads
    %w[help doctor stats].each do |name|
      reader, writer = IO.pipe
      reader.close
      pid = spawn(*Program::NB, "help", name, chdir: @folder, out: writer, err: "#{@folder}/errors")
      writer.close
      assert_predicate Process.wait2(pid)[1], :exited?
      assert_empty File.read("#{@folder}/errors")
    end
  end

  def test_the_environment_of_rails_counts
    write("config.ru", "$stderr.puts ENV['RACK_ENV']; exit\n")
    {["production", nil] => "production", ["x", "test"] => "test",
     [nil, nil] => "development"}.each do |(rails, rack), name|
      environment = {"RAILS_ENV" => rails, "RACK_ENV" => rack}
      _, errors, = Open3.capture3(environment, *Program::NB, "serve", "-b", TCP, chdir: @folder)
      assert_equal "#{name}\n", errors
    end
  end
end
