# frozen_string_literal: true

require "minitest/autorun"
require "json"
require "open3"
require "socket"
require "tmpdir"
require_relative "../support/missing"
require_relative "../support/ports"
require_relative "../support/program"
require_relative "../support/reset"
require_relative "../../lib/neverblock/cli"
require_relative "../../lib/neverblock/cli/iotest_options"
require_relative "../../lib/neverblock/cli/terminal"

# `nb iotest` as a program, each end against the other and against plain sockets, as nc is one.
class IotestTest < Minitest::Test
  def setup
    @folder = Dir.mktmpdir
    @file = File.join(@folder, "source")
    @bytes = Random.new(2008).bytes(3_000_001)
    File.binwrite(@file, @bytes)
    @target = File.join(@folder, "target")
  end

  def teardown = FileUtils.rm_rf(@folder)

  # @yieldparam port [Integer] of a server that ends after one connection
  # @return [Hash] what the server tells
  def server(*arguments)
    command = [*Program::NB, "iotest", "-s", "-1", "-p", "0", "-J", "--out", @target, *arguments]
    Open3.popen3(*command) do |*pipes, process|
      _, output, errors = pipes
      yield Integer(errors.gets[/\d+/])
      report = JSON.parse(output.read)
      assert_predicate process.value, :success?
      report
    end
  end

  def client(port, *arguments)
    out, errors, status = Program.nb("iotest", "-c", "127.0.0.1", "-p", port.to_s, "-J", *arguments)
    assert_equal ["", 0], [errors, status.exitstatus]
    JSON.parse(out)
  end

  [[], %w[-t], %w[-k 1000 -o 1], %w[-k 256k -b 64k -o 8], %w[-k 256k -t]].each do |options|
    define_method("test_a_file_arrives_whole_with_#{options.join("_")}") do
      sent = nil
      received = server { |port| sent = client(port, "-f", @file, *options) }

      assert_equal [@bytes.bytesize] * 2, [sent["bytes"], received["bytes"]]
      assert_equal @bytes, File.binread(@target)
    end
  end

  [[], %w[-t], %w[-k 7]].each do |options|
    define_method("test_network_only_with_#{options.join("_")}") do
      sent = nil
      received = server("-n") { |port| sent = client(port, "-n", "-l", "100k", *options) }

      assert_equal [100_000] * 2, [sent["bytes"], received["bytes"]]
      refute_path_exists @target
    end
  end

  def test_whatever_a_plain_socket_sends_is_written
    server do |port|
      TCPSocket.open("127.0.0.1", port) { |socket| socket.write(@bytes) }
    end

    assert_equal @bytes, File.binread(@target)
  end

  def test_a_plain_socket_receives_the_file
    TCPServer.open("127.0.0.1", 0) do |server|
      received = Thread.new do
        connection = server.accept
        connection.read.tap { connection.close }
      end
      client(server.local_address.ip_port, "-f", @file)

      assert_equal @bytes, received.value
    end
  end

  # The program itself, in both directions. OpenBSD's ends at the end of the file by -N.
  def test_nc_sends_and_nc_receives
    nc = %w[/bin/nc.openbsd /usr/bin/nc.openbsd].find { |path| File.executable?(path) }
    nc || missing("netcat-openbsd")
    server { |port| assert system(nc, "-N", "127.0.0.1", port.to_s, in: @file) }
    assert_equal @bytes, File.binread(@target)

    port = Ports.free
    File.write(@target, "")
    receiver = spawn(nc, "-l", "127.0.0.1", port.to_s, in: File::NULL, out: @target)
    sleep 0.01 until listening?(port)
    client(port, "-f", @file)
    Process.wait(receiver)
    receiver = nil
    assert_equal @bytes, File.binread(@target)
  ensure
    receiver && Process.kill(:KILL, receiver) && Process.wait(receiver)
  end

  # Without a connection, which would be the one that it serves.
  def listening?(port)
    File.read("/proc/net/tcp").match?(/: \h+:#{format("%04X", port)} \h+:\h+ 0A /)
  end

  def test_disk_only
    read = client(1, "-d", "-f", @file)
    out, = Program.nb("iotest", "-s", "-d", "-l", "64K", "--out", @target, "-J")

    assert_equal @bytes.bytesize, read["bytes"]
    assert_equal [65_536] * 2, [JSON.parse(out)["bytes"], File.size(@target)]
  end

  def test_suffixes
    { "500" => 500, "64k" => 64_000, "64K" => 65_536, "2m" => 2_000_000, "1M" => 1_048_576,
      "1g" => 10**9, "1G" => 2**30 }.each do |text, bytes|
      assert_equal bytes, NB::CLI::IotestOptions.bytes("-b", text)
    end
  end

  {
    "-s -t" => "-t is for the client", "-c x -d -t -f F" => "-t sends over the network",
    "-c x -n" => "needs -l", "-s -d" => "needs -l", "-c x -n -l 5 -f F" => "takes no -f",
    "-c x" => "needs -f", "-c x -n -d -f F" => "exclude each other", "-n" => "either -s",
    "-c x -n -k 5q" => "-k: not a length", "-c x -n -l 5q" => "-l: not a length",
    "-c x -n -l 0" => "not a length",
    "-c x -f /nowhere" => "no such file: /nowhere", "-s -o 0" => "-o: must be from 1 to 1024",
    "-s -p 99999" => "-p: must be from 0 to 65535", "-s x" => "takes no argument",
    "-s -z" => "invalid option",
    "-s -b 3G" => "-b: must be at most 2147483647 bytes, got: 3221225472",
    "-s -k 2G" => "-k: must be at most 2147483647 bytes"
  }.each do |line, message|
    define_method("test_says_what_is_wrong_with_#{line.tr(" ", "_")}") do
      error = assert_raises(NB::CLI::UsageError) do
        NB::CLI::IotestOptions.parse(line.sub("F", @file).split)
      end
      assert_includes error.message, message
    end
  end

  def test_a_wrong_command_line_ends_with_2
    ["-s -t", "suite 5q", "suite 1k 2k"].each do |line|
      assert_equal 2, Program.nb("iotest", *line.split).last.exitstatus, line
    end
  end

  def test_nobody_listens
    port = Ports.free
    _, errors, status = Program.nb("iotest", "-c", "127.0.0.1", "-p", port.to_s, "-n", "-l", "1k")

    assert_equal 1, status.exitstatus
    assert_match(/nb iotest: nothing listens on 127.0.0.1, port #{port} .*: Connection refused/,
      errors)
  end

  def test_an_unknown_host
    _, errors, status = Program.nb("iotest", "-c", "no.such.host.invalid", "-n", "-l", "1k")

    assert_equal 1, status.exitstatus
    assert_match(/\Anb iotest: .*getaddrinfo.*\n\z/, errors)
  end

  # A reset before the end: the server says so and serves the next.
  def test_the_server_outlives_a_client_that_resets
    command = [*Program::NB, "iotest", "-s", "-p", "0", "-J", "-n"]
    Open3.popen3(*command) do |*pipes, process|
      _, output, errors = pipes
      port = Integer(errors.gets[/\d+/])
      TCPSocket.open("127.0.0.1", port) do |socket|
        Reset.on_close(socket)
        socket.write(@bytes[0, 1000])
      end
      assert_match(/\Anb iotest: the client is gone: Connection reset/, errors.gets)
      assert_equal 5000, client(port, "-n", "-l", "5000")["bytes"]
      assert_equal 5000, JSON.parse(output.gets)["bytes"]
    ensure
      Process.kill(:KILL, process.pid)
    end
  end

  # With -1 there is no next: the exit status tells.
  def test_a_single_reset_is_a_failure
    Open3.popen3(*Program::NB, "iotest", "-s", "-1", "-p", "0", "-n") do |*pipes, process|
      TCPSocket.open("127.0.0.1", Integer(pipes.last.gets[/\d+/])) do |socket|
        Reset.on_close(socket)
      end
      assert_equal 1, process.value.exitstatus
    end
  end

  # More than one call of sendfile(2) takes (0x7ffff000 bytes), of which the disk holds nothing.
  def test_a_file_larger_than_one_sendfile
    File.open(@file, "wb") { |file| file.truncate(0x7ffff000 + 5000) }
    sent = nil
    received = server("-n", "-k", "1M") { |port| sent = client(port, "-t", "-f", @file) }

    assert_equal [0x7ffff000 + 5000] * 2, [sent["bytes"], received["bytes"]]
  end

  # So many that the kernel's notes about them do not fit (net.core.optmem_max).
  def test_many_sends_without_copying
    sent = nil
    received = server("-n") { |port| sent = client(port, "-n", "-t", "-k", "500", "-l", "2m") }

    assert_equal [2_000_000] * 2, [sent["bytes"], received["bytes"]]
  end

  # More parts than writev(2) takes at once (IOV_MAX): Ruby's own write, in fibers of the loop.
  def test_a_write_of_more_parts_than_one_call_takes
    parts = Array.new((1024 * 3) + 5) { |index| "part #{index}\n" }
    received = server { |port| write_parts(port, parts) }

    assert_equal parts.join, File.binread(@target)
    assert_equal parts.sum(&:bytesize), received["bytes"]
  end

  def write_parts(port, parts)
    code = <<~RUBY
      require "neverblock"
      require "socket"
      parts = Marshal.load($stdin.read.b)
      NB.run do
        TCPSocket.open("127.0.0.1", #{port}) do |socket|
          socket.setsockopt(:SOCKET, :SNDBUF, 4096) # so that it also waits in between
          exit 1 unless socket.write(*parts) == parts.sum(&:bytesize)
        end
      end
    RUBY
    _, errors, status = Open3.capture3(*Program::RUBY, "-I#{Program::ROOT}/lib", "-e", code,
                                       stdin_data: Marshal.dump(parts), binmode: true)
    assert_predicate status, :success?, errors
  end

  def test_cold_files
    received = server("--cold") { |port| client(port, "-f", @file, "--cold") }

    assert_equal [@bytes.bytesize, @bytes], [received["bytes"], File.binread(@target)]
  end

  # Each a row: seconds, Gbit/s, the client's and the server's CPU.
  def test_the_suite_runs_all_seven
    out, errors, status = Program.nb("iotest", "suite", "--cold", "200k")

    assert_equal ["", 0], [errors, status.exitstatus]
    rows = out.lines.grep(/\A[^0-9]{26}(?: +\d+\.\d\d){4}$/)
    ours = rows.grep_v(/\A(?:iperf3|nc|socat|  the same in C)/)
    assert_equal [7, 7], [ours.size, rows.grep(/the same in C/).size], out
    %w[socat nc iperf3].each do |name|
      there = NB::CLI::Terminal.path(name == "nc" ? "nc.openbsd" : name)
      missing = /^not compared with #{name}, which is not installed/
      assert_match(there ? /^#{name} +\d/ : missing, out)
    end
  end

  # As the traditional nc, which has other options than OpenBSD's.
  def test_a_program_to_compare_with_that_fails_costs_its_row_only
    File.write("#{@folder}/nc", "#!/bin/sh\necho \"nc: invalid option -- 'N'\" >&2\nexit 1\n")
    File.chmod(0o755, "#{@folder}/nc")
    path = { "PATH" => "#{@folder}:#{ENV.fetch("PATH")}" }
    out, errors, status = Open3.capture3(path, *Program::NB, "iotest", "suite", "20k")

    assert_equal ["", 0], [errors, status.exitstatus]
    assert_match(/^not compared with nc, which fails: nc: invalid option -- 'N'$/, out)
    assert_equal 7, out.scan(/^  the same in C/).size
  end
end
