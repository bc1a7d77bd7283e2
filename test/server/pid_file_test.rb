# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "program"
require "neverblock/server/binding"
require "neverblock/server/pid_file"

# Whoever sends a signal to the process that a pidfile names must get the right one.
class ServerPidFileTest < Minitest::Test
  include ServerProgram

  def setup
    super
    @file = "#{@dir}/pid"
  end

  # @return [Array(Integer, String)] status and output of a second server
  def refused(file = @file)
    out = IO.popen(nb("serve", "-b", "tcp://127.0.0.1:0", "--pidfile", file, "--control", "unix://#{@dir}/other"), chdir: @dir, err: %i[child out], &:read)
    [$?.exitstatus, out]
  end

  def test_another_server_does_not_get_the_file_of_one_that_runs
    [[], %w[-w 1]].each do |flags|
      start("--pidfile", @file, *flags)
      assert_equal [1, "nb serve: cannot write the pidfile: #{@file} names #{@pid}, a server that runs: end it, or name another file\n"], refused
      assert_equal @pid, Integer(File.read(@file))
      assert_equal "config.ru control.sock log nb.rb pid app.sock".split.sort, Dir.children(@dir).sort
      assert_predicate finish, :success?
      refute File.exist?(@file)
    end
  end

  # The number may be another program's by now.
  def test_the_file_of_a_server_that_is_gone_is_replaced
    other = spawn(RbConfig.ruby, "-e", "trap('TERM') { exit }; puts; $stdout.flush; sleep", out: @log)
    eventually { File.size?(@log) }
    Process.wait(gone = spawn("true"))
    [gone, other, ""].each do |pid|
      File.write(@file, pid.to_s)
      start("--pidfile", @file)
      assert_equal @pid, Integer(File.read(@file))
      assert_predicate finish, :success?
    end
  ensure
    Process.kill("KILL", other)
    Process.wait(other)
  end

  def test_a_file_of_another_kind_is_left_alone
    assert_equal [1, "nb serve: cannot write the pidfile: #{@dir}/config.ru is no pidfile: name another one\n"], refused("#{@dir}/config.ru")
    assert_equal RACKUP, File.read("#{@dir}/config.ru")
  end

  # A process may have become another user since, or its folder read-only.
  def test_files_that_cannot_be_removed_do_not_disturb_the_end
    Dir.mkdir(folder = "#{@dir}/run")
    child = fork do
      files = [NB::Server::PidFile.new("#{folder}/pid").tap(&:write), NB::Server::ControlAddress.new("unix://#{folder}/control").tap(&:open),
               NB::Server::Binding.parse("unix://#{folder}/app").open]
      File.chmod(0o555, folder)
      File.chmod(0o755, @dir)
      Process::UID.change_privilege(65_534) if Process.uid.zero?
      files.each { |file| file.public_send(%i[remove remove_file close].find { |name| file.respond_to?(name) }) }
      exit!(0)
    ensure
      exit!(1)
    end
    assert_predicate Process.wait2(child).last, :success?
    assert_equal %w[app control pid], Dir.children(folder).sort
  ensure
    File.chmod(0o755, folder)
  end
end
# rubocop:enable Layout/LineLength
