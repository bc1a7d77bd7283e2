# frozen_string_literal: true

require_relative "../server/program"
require_relative "../support/program"
require_relative "../support/subprocess"
require "neverblock"

# `nb dump`: by a control socket, by the pid of a program without one, and where neither helps.
class DumpCommandTest < Minitest::Test
  include ServerProgram

  def dump(*arguments) = Program.nb("dump", *arguments.map(&:to_s))

  # `nb run` as a program of its own, with stderr to the log.
  def start_script(code, program: Program::NB.last)
    File.write("#{@dir}/script.rb", code)
    words = [*Program::RUBY, program, "run", "#{@dir}/script.rb"]
    @pid = spawn(*words, out: @log, err: %i[child out], pgroup: true)
    eventually { log.include?("ready") }
  end

  # With all its processes.
  def kill
    Process.kill("KILL", -@pid)
    Process.wait(@pid)
    @pid = nil
  end

  def test_by_the_control_socket_of_a_cluster
    start("-w", "2")
    eventually { workers.size == 2 }
    asking = Thread.new { get("/sleep") }
    out, err, status = eventually do
      dump(@control).then { |all| all if all.first.match?(/^GET .* waits/) }
    end
    assert_equal ["", 0], [err, status.exitstatus]
    assert_equal pids.sort, out.scan(/^process (\d+), worker \d:/).flatten.map(&:to_i).sort
    waiting = %r{^GET /sleep, for \d+\.\d+ s, waits \d+\.\d+ s for sleep .*\n    config\.ru:7:in }
    assert_match(waiting, out)
    kill
    assert_nil asking.value
  end

  # In Ruby code, which lets other threads run.
  def test_a_loop_that_stands_still
    start
    asking = Thread.new { get("/stuck") }
    eventually { JSON.parse(NB::Server::Control.ask(@control, "/requests")).any? }
    out, = eventually { dump(@control).then { |all| all if all.first.include?("has not turned") } }
    assert_match(/^process #{@pid}: 1 running, .*; its loop has not turned for \d+\.\d+ s$/, out)
    stack = /(    <internal:.*\n)?    config\.ru:3:in / # Kernel#loop is Ruby in 3.4
    assert_match(/^GET \/stuck, for .* runs or is about to\n#{stack}/, out)
    kill
    assert_nil asking.value
  end

  def test_by_the_pid_of_a_script
    start_script("NB.async { Thread::Queue.new.pop }\n$stderr.puts 'ready'\nsleep\n")
    out, err, status = dump(@pid)
    assert_equal ["", 0], [err, status.exitstatus]
    assert_match(/pid #{@pid}/, out)
    assert_match(/waits \d+\.\d+ s for #<Thread::Queue/, out)
    refute_includes out, "ready"
  end

  # A new build has taken the place of the one that it runs.
  def test_of_a_script_whose_extension_was_replaced
    FileUtils.cp_r(%w[exe lib].map { |name| File.join(Program::ROOT, name) }, @dir)
    start_script("$stderr.puts 'ready'\nsleep\n", program: "#{@dir}/exe/nb")
    File.delete(*Dir["#{@dir}/lib/neverblock/*/neverblock.so"])
    out, err, status = dump(@pid)
    assert_equal ["", 0], [err, status.exitstatus]
    assert_match(/NB::Scheduler/, out)
  end

  # Where it is no file, it says where to look.
  def test_of_a_script_that_writes_elsewhere
    code = "$stderr.puts 'ready'; sleep"
    Open3.popen3(*Program::NB, "run", "-e", code) do |_, _, err, process| # rubocop:disable Metrics/ParameterLists
      err.gets
      out, = dump(process.pid)
      assert_match(/\Apid #{process.pid} prints on its stderr, pipe:\[\d+\]\n\z/, out)
      assert_match(/NB::Scheduler/, err.gets)
    ensure
      Process.kill("KILL", process.pid)
    end
  end

  # Any other program is sent nothing: it might end by that.
  def test_others_are_left_alone
    pid = spawn("sleep", "60")
    folders = $LOAD_PATH.map { |path| "-I#{path}" }
    plain = spawn(*Program::RUBY, *folders, "-rneverblock", "-e", "sleep 60")
    eventually { File.read("/proc/#{plain}/maps").include?("neverblock.so") }
    [pid, plain].each do |other|
      _, err, status = dump(other)
      assert_equal 1, status.exitstatus
      assert_match(/\Anb dump: process #{other} does not handle SIGPWR .*\n\z/, err)
      assert_nil Process.wait(other, Process::WNOHANG)
    end
  ensure
    [pid, plain].compact.each { |other| Process.kill("KILL", other) && Process.wait(other) }
  end

  BAD = {
    [] => [2, "needs the address of a control socket, or a pid"],
    %w[1 2] => [2, "takes one address or pid, got: 1 2"],
    ["app.control"] => [2, "address: must be unix://path or tcp://host:port, got: app.control"],
    ["999999999"] => [1, "there is no process 999999999"],
    ["unix:///nowhere/x"] => [1, "nothing answers at unix:///nowhere/x: No such file or directory"]
  }.freeze

  def test_bad_input_is_answered_in_one_sentence
    BAD.each do |arguments, (code, words)|
      out, err, status = dump(*arguments)
      assert_equal ["", code], [out, status.exitstatus], arguments.inspect
      assert err.start_with?("nb dump: #{words}"), err
    end
  end
end
