# frozen_string_literal: true

require_relative "program"
require "neverblock/server"
require "neverblock/server/config"
require "open3"
require "stringio"

# How many connections wait at a listener. Of a listening TCP socket the kernel tells it where a
# connected one has its selective acknowledgements (tcp_get_info); at a UNIX socket one counts.
class ServerBacklogTest < Minitest::Test
  include ServerProgram

  def self.of(listener) = listener.getsockopt(:TCP, Socket::TCP_INFO).data.unpack("x24LL").last

  SOMAXCONN = Integer(File.read("/proc/sys/net/core/somaxconn"))
  USUAL = [4096, SOMAXCONN].min

  # The most that the kernel lets in unaccepted is one more.
  def test_a_server_has_as_many_as_it_is_told
    assert_equal [USUAL, 7], [{}, {backlog: 7}].map { |options| tcp_with(**options) }
    server = server_at("unix://#{@dir}/some.sock", backlog: 3)
    assert_equal 4, let_in("#{@dir}/some.sock")
  ensure
    server&.close
  end

  def test_an_inherited_listener_changes_when_the_program_is_told_or_opened_it_itself
    {["", nil] => 5, ["", 9] => 9, ["#", nil] => USUAL, ["#", 9] => 9}.each do |(ours, told), count|
      listener = TCPServer.new("127.0.0.1", 0)
      listener.listen(5)
      binding = NB::Server::Binding.parse("fd://#{listener.fileno}#{ours}").open(backlog: told)
      assert_equal [count, told || USUAL], [ServerBacklogTest.of(listener), binding.backlog]
      binding.io.autoclose = false
      listener.close
    end
  end

  def test_the_word_of_the_file_and_the_flag_that_beats_it
    {[] => 12, %w[--backlog 34] => 34}.each do |flags, count|
      listener = TCPServer.new("127.0.0.1", 0)
      start_with(listener, *flags, config: "backlog 12\n")
      assert_equal count, ServerBacklogTest.of(listener)
      finish
    ensure
      listener&.close
    end
  end

  def test_a_backlog_that_is_none
    [0, -1, 2**31, "many", 1.5].each do |value|
      config = NB::Server::Config.new(environment: {})
      [-> { config.backlog(value) }, -> { NB::Server.new(nil, backlog: value) }].each do |say|
        error = assert_raises(ArgumentError) { say.call }
        assert_equal "backlog: must be an integer in 1..2147483647, got: #{value.inspect}",
          error.message
      end
    end
    out, status = Open3.capture2e(*nb("serve", "--backlog", "0"), chdir: @dir)
    assert_match(/\Anb serve: --backlog: must be an integer in .*, got: 0\nSee: nb help/, out)
    assert_equal 2, status.exitstatus
  end

  def test_a_kernel_that_allows_less_is_pointed_out
    {SOMAXCONN + 1 => true, SOMAXCONN => false}.each do |count, told|
      start("--backlog", count.to_s)
      line = "! net.core.somaxconn is #{SOMAXCONN}: it lowers the backlog of #{count}"
      assert_equal told, log.include?(line)
      finish
    end
  end

  # Who stands in a long queue when the server stops. Only in a network of its own may a test raise
  # the kernel's limit.
  QUEUE = <<~'RUBY'
    File.write("/proc/sys/net/core/somaxconn", "9000")
    Process.setrlimit(:NOFILE, 11_500)
    begun, goes_on = Array.new(2) { Thread::Queue.new }
    app = ->(_env) { NB.blocking { goes_on.pop } || [200, {}, ["ok"]] }
    patience = {drain_timeout: nil, queue_timeout: nil, header_timeout: nil}
    server = NB::Server.new(app, bind: "unix://#{ARGV[0]}", backlog: 6000, **patience)
    thread = Thread.new { server.run { begun << true } }
    begun.pop
    clients = Array.new(5500) do
      UNIXSocket.new(ARGV[0]).tap { |client| client.write("GET / HTTP/1.0\r\n\r\n") }
    end
    server.stop
    goes_on.close
    puts clients.map { |client| client.read[/ok|\z/] rescue $!.class }.tally
    thread.join
  RUBY

  def test_a_stopping_server_accepts_more_than_usually_wait
    ruby = [RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, "-rneverblock/server"]
    out, status = Open3.capture2e("unshare", "-rn", *ruby, "-e", QUEUE, "#{@dir}/some.sock")
    skip "no network of its own: #{out}" if out.match?(/unshare|somaxconn|setrlimit/)
    assert_equal [{"ok" => 5500}.to_s, true], [out.lines.last&.chomp, status.success?], out
  end

  private

  def server_at(bind, **options)
    NB::Server.new(nil, bind: bind, log: StringIO.new, **options).listen
  end

  def tcp_with(**options)
    server = server_at("tcp://127.0.0.1:0", **options)
    listener = Socket.for_fd(server.listener_fds.values.first)
    listener.autoclose = false
    ServerBacklogTest.of(listener)
  ensure
    server&.close
  end

  def let_in(path)
    waiting = []
    loop do
      socket = Socket.new(:UNIX, :STREAM)
      waiting << socket
      socket.connect_nonblock(Addrinfo.unix(path))
    end
  rescue Errno::EAGAIN
    waiting.size - 1
  ensure
    waiting.each(&:close)
  end

  # The listener is what systemd would pass.
  def start_with(listener, *flags, config:)
    File.write("#{@dir}/nb.rb", config)
    launch("sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", *nb("serve", *flags),
      env: {"LISTEN_FDS" => "1"}, 3 => listener, close_others: true)
  end
end
