# frozen_string_literal: true

require "minitest/autorun"
require "json"
require "net/http"
require "open3"
require "socket"
require "tmpdir"
require_relative "support/patience"
require_relative "support/program"

# The programs of docs/COOKBOOK.md, from outside: real servers, real signals.
class CookbookTest < Minitest::Test
  include Patience

  FOLDER = File.join(Program::ROOT, "examples", "cookbook")
  # Seconds after which something has failed.
  PATIENCE = 60

  # HTTP in threads of this process: the block gets the path and the body, and gives the body of the
  # answer, nil for a 503, or :hang_up.
  class Site
    attr_reader :url

    def initialize(&answer)
      @answer = answer
      @server = TCPServer.new("127.0.0.1", 0)
      @url = "http://127.0.0.1:#{@server.addr[1]}"
      @thread = Thread.new { loop { Thread.new(@server.accept) { |socket| serve(socket) } } }
    end

    def close
      @thread.kill.join
      @server.close
    end

    private

    def serve(socket)
      path = socket.gets.split[1]
      length = 0
      while (line = socket.gets.chomp) != ""
        length = line[/\d+/].to_i if line.downcase.start_with?("content-length")
      end
      body = @answer.call(path, socket.read(length))
      return if body == :hang_up

      socket.write("HTTP/1.1 #{body ? "200 OK" : "503 Busy"}\r\nconnection: close\r\n" \
                   "content-length: #{body.to_s.bytesize}\r\n\r\n#{body}")
    rescue SystemCallError, NoMethodError
      nil # the client has gone
    ensure
      socket.close
    end
  end

  def test_each_is_short_and_says_how_to_run_it
    programs = Dir["#{FOLDER}/*"]
    assert_equal %w[chat.rb children.rb crawler.rb gateway.ru retries_test.rb webhooks.rb],
      programs.map { |path| File.basename(path) }.sort
    page = read(File.join(Program::ROOT, "docs", "COOKBOOK.md"))
    programs.each do |path|
      text = read(path)
      assert_operator text.lines.size, :<, 40, path
      assert_match(/^# Run: .*#{File.basename(path)}/, text)
      assert_includes page, "(../examples/cookbook/#{File.basename(path)})"
    end
  end

  def test_the_crawler_reads_every_page_once
    refused = 0
    site = site do |path, _|
      next :hang_up if path == "/3" && (refused += 1) < 3

      number = path[1..].to_i
      [(2 * number) + 1, (2 * number) + 2].select { |next_one| next_one < 40 }
        .map { |next_one| %(<a href="/#{next_one}">) }.join
    end
    out, err, status = run_program("crawler.rb", "#{site.url}/0")
    assert_equal [true, ""], [status.success?, err]
    expected = (0..39).map { |number| "/#{number}" }
    assert_equal expected.sort, out.lines.map { |line| line.split.first }.sort
  end

  # Ten at a time wait until it has been told.
  def test_a_stopped_crawler_ends_what_it_has_begun
    asked, told = Array.new(2) { Thread::Queue.new }
    site = site do |path, _|
      asked << path
      told.pop unless path == "/"
      (0..50).map { |number| %(<a href="/#{number}">) }.join
    end
    out, _, status = run_program("crawler.rb", "#{site.url}/") do |process|
      eventually { asked.size == 11 }
      Process.kill(:INT, process.pid)
      told.close
    end
    assert_predicate status, :success?
    assert_operator asked.size, :<, 20 # of 51
    assert_equal asked.size, out.lines.size
    assert_empty out.scan(/Error/)
  end

  def test_a_gateway_answers_with_what_has_come
    site = site do |path, _|
      case path
      when "/user" then JSON.generate("name" => "ann")
      when "/orders" then nil
      else sleep(2) && "{}"
      end
    end
    command = [*Program::RUBY, "-Ilib", "exe/nb", "serve", "-p", "0", "#{FOLDER}/gateway.ru"]
    environment = { "UPSTREAM" => site.url }
    Open3.popen2e(environment, *command, chdir: Program::ROOT) do |_, output, process|
      port = output.each_line.lazy.filter_map { |line| line[%r{tcp://.*:(\d+)}, 1] }.first
      answer = JSON.parse(Net::HTTP.get(URI("http://127.0.0.1:#{port}/")))
      assert_equal [{ "name" => "ann" }, nil, nil], answer.values_at("user", "orders", "news")
      errors = { "orders" => "Busy", "news" => "cancelled: no value within 0.5 s" }
      assert_equal errors, answer["errors"]
    ensure
      Program.stop(process, :TERM)
      output.read
    end
  end

  # Stopped three times, then run to its end: each event arrives once. Some are refused at first.
  def test_webhooks_are_sent_once_through_stops
    got = Thread::Queue.new
    tries = Hash.new(0)
    site = site do |_, event|
      sleep(0.01)
      next if (tries[event] += 1) == 1 && event.end_with?("7")

      got << event
      "ok"
    end
    Dir.mktmpdir do |folder|
      file = "#{folder}/events.txt"
      events = Array.new(300) { |number| "event #{number}" }
      File.write(file, events.join("\n"))
      %i[INT TERM INT].each_with_index do |signal, round|
        least = [got.size + 20 + (round * 7), 250].min
        _, err, status = run_program("webhooks.rb", file, site.url) do |process|
          eventually { got.size >= least }
          Process.kill(signal, process.pid)
        end
        assert_predicate status, :success?, err
        assert_match(/^\d+ left$/, err)
      end
      _, err, status = run_program("webhooks.rb", file, site.url)
      assert_equal [true, "0 left\n"], [status.success?, err]
      sent = Array.new(got.size) { got.pop }
      assert_equal events.sort, sent.sort
      assert_equal events.sort, File.readlines("#{file}.sent", chomp: true).sort
    end
  end

  def test_webhooks_that_fail_are_told
    site = site { |_, event| event == "good" ? "ok" : nil }
    Dir.mktmpdir do |folder|
      File.write("#{folder}/events.txt", "bad\ngood\n")
      _, err, status = run_program("webhooks.rb", "#{folder}/events.txt", site.url)
      assert_predicate status, :success?
      assert_includes err, "bad: IOError: Busy\n"
      assert_includes err, "1 left\n"
      assert_equal "good\n", File.read("#{folder}/events.txt.sent")
    end
  end

  def test_the_chat
    with_chat do |port, process|
      ann, bob, eve = come(port, 3)
      eve.close
      ann.puts("hello bob", "how are you?")
      assert_equal ["hello bob\n", "how are you?\n"], hear(bob, 2)
      bob.puts("fine")
      assert_equal ["fine\n"], hear(ann, 1)
      Process.kill(:INT, process.pid)
      assert_equal [nil, nil], [ann.gets, bob.gets]
      assert process.join(PATIENCE)
      assert_predicate process.value, :success?
    end
  end

  # It is let go after five seconds; until then and afterwards the others talk.
  def test_the_chat_waits_for_nobody
    with_chat do |port|
      ann, bob, deaf = come(port, 3)
      talker = Thread.new { 200.times { ann.puts("x" * 100_000) } }
      assert_equal 100_001, hear(bob, 50).last.bytesize
      hear(bob, 50)
      [talker, deaf].each { |one| one.respond_to?(:kill) ? one.kill.join : one.close }
    end
  end

  def test_children_are_told_as_they_end
    out, err, status = run_program("children.rb", "sleep 1; echo slow", "false", "sleep 60",
      env: { "LIMIT" => "4" })
    assert_equal [true, ""], [status.success?, err]
    assert_match(/\Afalse: pid \d+ exit 1\n/, out)
    assert_match(/^sleep 1; echo slow: slow\npid \d+ exit 0\n/, out)
    assert_match(/^sleep 60: execution expired\n\z/, out)
  end

  def test_no_child_is_left_behind
    Dir.mktmpdir do |folder|
      command = "echo $$ > #{folder}/pid.tmp; mv #{folder}/pid.tmp #{folder}/pid; sleep 600"
      _, _, status = run_program("children.rb", command) do |process|
        eventually { File.exist?("#{folder}/pid") }
        Process.kill(:INT, process.pid)
      end
      assert_equal 130, status.exitstatus
      child = "/proc/#{File.read("#{folder}/pid").chomp}/stat"
      eventually { !File.exist?(child) }
    end
  end

  # In real time they would take six hours.
  def test_the_tests_of_retries_pass
    out, _, status = run_program("retries_test.rb")
    assert_predicate status, :success?
    assert_match(/^2 runs, 4 assertions, 0 failures, 0 errors, 0 skips/, out)
  end

  def teardown = @sites&.each(&:close)

  private

  def read(path) = File.read(path, encoding: "UTF-8")

  def site(&block)
    (@sites ||= []) << Site.new(&block)
    @sites.last
  end

  # @yield while it runs
  # @return [Array(String, String, Process::Status)]
  def run_program(name, *arguments, env: {})
    command = [*Program::RUBY, "-W", "-Ilib", "#{FOLDER}/#{name}", *arguments]
    Open3.popen3({ **Program::PATIENT, **env }, *command, chdir: Program::ROOT) do |*pipes, process|
      readers = pipes.drop(1).map { |io| Thread.new { io.read } }
      yield process if block_given?
      process.join(PATIENCE) or Process.kill(:KILL, process.pid) && flunk("#{name} does not end")
      [*readers.map(&:value), process.value]
    end
  end

  def with_chat
    command = [*Program::RUBY, "-W", "-Ilib", "#{FOLDER}/chat.rb", "0"]
    Open3.popen2e(*command, chdir: Program::ROOT) do |_, output, process|
      yield Integer(output.gets[/\d+/]), process
    ensure
      Program.stop(process, :KILL)
    end
  end

  # @return [Array<TCPSocket>] that the chat has greeted
  def come(port, count)
    (1..count).map do |number|
      TCPSocket.new("127.0.0.1", port).tap do |socket|
        assert_equal ["#{number} here\n"], hear(socket, 1)
      end
    end
  end

  def hear(socket, count)
    Array.new(count) do
      assert socket.wait_readable(PATIENCE), "nothing to hear"
      socket.gets
    end
  end
end
