# frozen_string_literal: true

require "minitest/autorun"
require "socket"
require "tmpdir"
require_relative "../support/patience"
require_relative "../support/program"

# Ctrl-C ends a tool with the status of shells, without a backtrace, and leaves no process behind.
class InterruptTest < Minitest::Test
  include Patience

  def setup = @folder = Dir.mktmpdir

  def teardown
    if @pid
      Process.kill("KILL", @pid)
      Process.wait(@pid)
    end
    FileUtils.rm_rf(@folder)
  end

  def begin_to(*words)
    @pid = spawn(*Program::NB, *words, chdir: @folder, out: File::NULL, err: "#{@folder}/errors")
  end

  def interrupt
    Process.kill("INT", @pid)
    _, status = eventually { Process.wait2(@pid, Process::WNOHANG) }
    @pid = nil
    assert_equal ["", 130], [File.read("#{@folder}/errors"), status.exitstatus]
  end

  # It is in no process group of the terminal.
  def test_an_application_that_doctor_boots
    Dir.mkdir("#{@folder}/config")
    File.write("#{@folder}/config/environment.rb", "File.write('pid', Process.pid); sleep")
    begin_to("doctor", ".")
    child = eventually { File.size?("#{@folder}/pid") && Integer(File.read("#{@folder}/pid")) }
    interrupt
    assert_raises(Errno::ESRCH) { Process.kill(0, child) }
  end

  def test_a_server_that_does_not_answer
    server = UNIXServer.new("#{@folder}/control")
    [%w[stats], %w[dump], %w[top --once]].each do |words|
      begin_to(*words, "unix://#{@folder}/control")
      asked = server.accept
      interrupt
      asked.close
    end
  ensure
    server&.close
  end
end
