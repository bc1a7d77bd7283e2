# frozen_string_literal: true

require_relative "program"
require_relative "../support/ports"

# Whatever happens to the processes, clients that keep their connections, as browsers and proxies
# do, lose nothing: over TCP, under load, every answer looked at.
class ServerClusterLoadTest < Minitest::Test
  include ServerProgram

  APP = <<~RUBY
    run lambda { |env|
      sleep 0.003
      [200, {"content-type" => "text/plain"}, ["\#{env["PATH_INFO"]} \#{Process.pid}"]]
    }
  RUBY
  CLIENTS = 8

  # Keeps its connection. When that ends before any byte of an answer has come, and it was used
  # before, it may ask once more on a new one (RFC 9112 9.3.1).
  class Client
    attr_reader :right, :again, :lost

    def initialize(port)
      @port = port
      @right = @again = 0
      @lost = []
    end

    def ask(path)
      fresh = @socket.nil?
      @socket ||= TCPSocket.new("127.0.0.1", @port).tap { |io| io.setsockopt(:TCP, :NODELAY, true) }
      return if take(path)

      hang_up
      return @lost << "no answer on a new connection" if fresh

      @again += 1
      ask(path)
    rescue SystemCallError => error
      hang_up
      @lost << error.class.name
    end

    def hang_up
      @socket&.close
      @socket = nil
    end

    private

    # @return [Boolean] false: the connection ended before the answer began
    def take(path)
      status = exchange(path) or return false
      fields = {}
      while (line = @socket.gets("\r\n")) && line != "\r\n"
        name, value = line.chomp.split(": ", 2)
        fields[name.downcase] = value
      end
      body = @socket.read(fields["content-length"].to_i)
      good = status.include?(" 200 ") && body&.start_with?("#{path} ")
      good ? @right += 1 : @lost << "#{status.inspect} #{body.inspect}"
      hang_up if fields["connection"] == "close" || !good
      true
    end

    def exchange(path)
      @socket.write("GET #{path} HTTP/1.1\r\nHost: a\r\n\r\n")
      @socket.gets("\r\n")
    rescue Errno::ECONNRESET, Errno::EPIPE
      nil
    end
  end

  def start_cluster(*flags)
    File.write("#{@dir}/config.ru", APP)
    @port = Ports.free
    start("-b", "tcp://127.0.0.1:#{@port}", *flags)
  end

  # @return [Array<Client>] after the block
  def under_load
    over = false
    clients = Array.new(CLIENTS) { Client.new(@port) }
    threads = clients.each_with_index.map do |client, i|
      Thread.new do
        (0..).each { |n| over || client.ask("/#{i}/#{n}") && over and break }
      end
    end
    eventually { clients.sum(&:right) > 50 }
    yield clients
    before = clients.sum(&:right)
    eventually { clients.sum(&:right) > before + 50 } unless @ending
    over = true
    threads.each { |thread| thread.join(60) || flunk("a client hangs") }
    clients
  end

  def lost(clients) = clients.flat_map(&:lost)

  def test_usr1
    start_cluster("-w", "2")
    old = eventually { (now = pids).size == 2 && now }
    clients = under_load do
      2.times do
        before = pids
        Process.kill("USR1", @pid)
        eventually { (now = pids).size == 2 && (now & before).empty? }
      end
    end
    assert_empty lost(clients)
    assert_equal 0, clients.sum(&:again), "kept connections that ended without a word"
    refute_includes pids, old.first
    finish
  end

  def test_usr2
    start_cluster("-w", "2")
    old = eventually { (now = pids).size == 2 && now }
    clients = under_load do
      Process.kill("USR2", @pid)
      eventually { (now = pids).size == 2 && (now & old).empty? }
      eventually { old.none? { |pid| alive?(pid) } }
    end
    assert_empty lost(clients)
    assert_equal 0, clients.sum(&:again), "kept connections that ended without a word"
    finish
  end

  def test_ttin_and_ttou
    start_cluster("-w", "1")
    clients = under_load do
      Process.kill("TTIN", @pid)
      eventually { pids.size == 2 }
      2.times do
        Process.kill("TTIN", @pid)
        eventually { pids.size == 3 }
        Process.kill("TTOU", @pid)
        eventually { pids.size == 2 }
      end
    end
    assert_empty lost(clients)
    assert_equal 0, clients.sum(&:again), "kept connections that ended without a word"
    finish
  end

  # What the killed worker had in hand is lost, and nothing else.
  def test_kill
    start_cluster("-w", "2")
    eventually { pids.size == 2 }
    clients = under_load do
      3.times do
        killed = eventually { (now = pids).size == 2 && now.first }
        Process.kill("KILL", killed)
        eventually { (now = pids).size == 2 && !now.include?(killed) }
      end
    end
    assert_operator lost(clients).size, :<=, 3 * CLIENTS
    assert_empty lost(clients).grep_v(/no answer|nil|ECONNRESET/)
    finish
  end

  # Whoever is let in gets an answer, but for one or two that the kernel may let in between the last
  # accept and the close.
  [[], %w[-w 2]].each do |flags|
    define_method("test_term_#{flags.empty? ? "one_process" : "cluster"}") do
      start_cluster(*flags)
      @ending = true
      clients = under_load do
        assert_predicate finish, :success?
      end
      assert_operator lost(clients).reject { |what| what == "Errno::ECONNREFUSED" }.size, :<=, 2
      assert_equal 0, clients.sum(&:again), "kept connections that ended without a word"
    end
  end
end
