# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "open3"
require_relative "program"
require_relative "../support/timing"

# What systemd does to a service: listeners that are open already, sd_notify(3), the watchdog.
class ServerSystemdTest < Minitest::Test
  include ServerProgram

  def teardown
    super
    @manager&.close
    @listeners&.each(&:close)
  end

  # The manager's end of NOTIFY_SOCKET: a path, or a name in the abstract namespace.
  def manager(path = "#{@dir}/notify")
    @manager = Socket.new(:UNIX, :DGRAM)
    @manager.bind(Addrinfo.unix(path.sub(/\A@/, "\0")))
    path
  end

  # The next message that has the word in it.
  def told(word)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
    loop do
      left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
      flunk "systemd was not told #{word}: #{log}" unless left.positive? && @manager.wait_readable(left)
      message = @manager.recv(4096)
      return message if message.include?(word)
    end
  end

  # LISTEN_PID is the pid of the program itself, so a shell sets it and becomes the program.
  def launch_with_listeners(*listeners, flags: [])
    @listeners = listeners
    fds = listeners.each_with_index.to_h { |listener, i| [3 + i, listener] }
    launch("sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", *nb("serve", *flags), **fds, close_others: true)
  end

  def launch(*command, env: {}, **options)
    env = env.merge("LISTEN_FDS" => @listeners.size.to_s) if @listeners
    super
  end

  def ask(port) = TCPSocket.open("127.0.0.1", port) { |socket| answer_on(socket) }

  def answer_on(socket)
    socket.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    socket.read[/\d+\z/].to_i
  end

  [[], %w[-w 1]].each do |flags|
    name = flags.empty? ? "one_process" : "cluster"

    define_method("test_listen_fds_#{name}") do
      tcp = TCPServer.new("127.0.0.1", 0)
      unix = UNIXServer.new("#{@dir}/inherited.sock")
      abstract = UNIXServer.new("\0#{@dir}/abstract") # ListenStream=@name
      launch_with_listeners(tcp, unix, abstract, flags: flags)
      @socket = "#{@dir}/inherited.sock"
      assert_equal pids.first, ask(tcp.local_address.ip_port)
      assert_equal pids.first, get
      assert_equal pids.first, UNIXSocket.open("\0#{@dir}/abstract") { |socket| answer_on(socket) }
      assert_match(%r{listening on tcp:.*\n.*listening on unix:.*\n.*listening on unix://@#{@dir}/abstract}, log)
      assert_predicate finish, :success?
      assert File.exist?(@socket), "the file of a socket that systemd made is systemd's"
    end

    define_method("test_notify_and_watchdog_#{name}") do
      path = manager
      launch(*nb("serve", "-b", "unix://#{@socket}", *flags), env: {"NOTIFY_SOCKET" => path, "WATCHDOG_USEC" => "400000"})
      assert_match(/^READY=1$/, ready = told("READY"))
      assert_match(/^MAINPID=#{@pid}$/, ready)
      times = Array.new(11) { told("WATCHDOG=1") && clock }
      assert_in_time (times.last - times.first) / 10, 0.3, "half of WATCHDOG_USEC is the rule"
      Process.kill("TERM", @pid)
      told("STOPPING=1")
      Process.wait(@pid)
      @pid = nil
    end
  end

  # That is what the watchdog is for: a single process whose loop hangs falls silent.
  def test_a_stuck_loop_is_not_reported_alive
    path = manager
    launch(*nb("serve", "-b", "unix://#{@socket}"), env: {"NOTIFY_SOCKET" => path, "WATCHDOG_USEC" => "400000"})
    told("WATCHDOG=1")
    asking = Thread.new do
      get("/stuck")
    rescue SystemCallError
      nil
    end
    eventually { @manager.recv(4096) while @manager.wait_readable(0); !@manager.wait_readable(1) }
    Process.kill("KILL", @pid)
    asking.join
  end

  def test_nobody_watches_without_watchdog_usec
    path = manager("@nb-test-#{Process.pid}")
    launch(*nb("serve", "-b", "unix://#{@socket}", "-w", "1"), env: {"NOTIFY_SOCKET" => path, "WATCHDOG_USEC" => nil})
    told("READY=1")
    Process.kill("TERM", @pid)
    assert_match(/\ASTOPPING=1/, told("="), "no WATCHDOG in between")
  end

  # They are set by hand, in a container for instance. With 0, the watchdog's thread never slept.
  def test_variables_that_systemd_does_not_set
    { { "WATCHDOG_USEC" => "soon" } => "WATCHDOG_USEC: must be an integer in .*, got: \"soon\"",
      { "WATCHDOG_USEC" => "0" } => "WATCHDOG_USEC: must be an integer in .*, got: \"0\"",
      { "NOTIFY_SOCKET" => "/#{"a" * 200}" } => "NOTIFY_SOCKET: too long unix socket path.*" }.each do |variables, text|
      output, status = Open3.capture2e(variables, *nb("serve", "-b", "unix://#{@socket}"), chdir: @dir)
      assert_match(/\Anb serve: #{text}\n\z/, output)
      assert_equal 1, status.exitstatus
    end
    empty = { "NOTIFY_SOCKET" => "", "WATCHDOG_USEC" => "" }
    launch(*nb("serve", "-b", "unix://#{@socket}"), env: empty)
    eventually { get }
    finish
  end

  def test_a_socket_that_does_not_listen
    socket = Socket.new(:INET, :STREAM)
    output, status = Open3.capture2e(*nb("serve", "-b", "fd://#{socket.fileno}"), chdir: @dir, socket => socket)
    assert_match(/cannot listen: .* - fd:\/\/#{socket.fileno} does not listen: hand over a stream socket that listens$/, output)
    assert_equal 1, status.exitstatus
  ensure
    socket.close
  end

  def test_usr2_reloads
    path = manager
    launch(*nb("serve", "-b", "unix://#{@socket}", "-w", "1"), env: {"NOTIFY_SOCKET" => path})
    told("READY=1")
    Process.kill("USR2", @pid)
    assert_match(/^MONOTONIC_USEC=\d+$/, told("RELOADING=1"))
    assert_match(/^MAINPID=#{@pid}$/, told("READY=1"))
    eventually { pids.first == get } # the old worker may still take one
    finish
  end

  # It would end a service that takes longer to load than WatchdogSec.
  def test_systemd_hears_of_a_program_that_loads_at_usr2
    path = manager
    launch(*nb("serve", "-b", "unix://#{@socket}", "-w", "1"), env: {"NOTIFY_SOCKET" => path, "WATCHDOG_USEC" => "400000"})
    told("READY=1")
    File.write("#{@dir}/config.ru", "File.write('loads', '')\nsleep 0.01 until File.exist?('go')\n#{RACKUP}")
    Process.kill("USR2", @pid)
    eventually { File.exist?("#{@dir}/loads") }
    @manager.recv(4096) while @manager.wait_readable(0) # what was told before
    2.times { told("WATCHDOG=1") }
    go
    told("READY=1")
    assert_predicate finish, :success?
  end

  # Its folder has been deleted: an old release of a deployment, without a link.
  def test_a_reload_that_cannot_begin_is_over
    path = manager
    Dir.mkdir(folder = "#{@dir}/release")
    launch(*nb("serve", "-b", "unix://#{@socket}", "-w", "1", "#{@dir}/config.ru"), env: {"NOTIFY_SOCKET" => path, "PWD" => folder}, chdir: folder)
    told("READY=1")
    Dir.rmdir(folder)
    Process.kill("USR2", @pid)
    told("RELOADING=1")
    assert_match(/^MAINPID=#{@pid}$/, told("READY=1"))
    eventually { log.include?("re-execution failed: No such file or directory - #{folder}, so the workers continue.") }
    assert_equal pids.first, get
    assert_predicate finish, :success?
  end

  # It would count as reloading forever.
  def test_a_reload_that_failed_is_over
    path = manager
    launch(*nb("serve", "-b", "unix://#{@socket}", "-w", "1"), env: {"NOTIFY_SOCKET" => path})
    told("READY=1")
    File.write("#{@dir}/config.ru", "raise 'no such luck'")
    Process.kill("USR2", @pid)
    told("RELOADING=1")
    assert_match(/^MAINPID=#{@pid}$/, told("READY=1"))
    assert_predicate finish, :success?
  end
end
# rubocop:enable Layout/LineLength
