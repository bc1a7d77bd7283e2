# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- an expectation each, better on one line

require_relative "../server/program"
require_relative "../support/missing"
require_relative "../support/program"
require_relative "../support/tmux"
require "neverblock"
require "shellwords"

# `nb top` in a real terminal, before a real `nb serve` under load.
class TopTest < Minitest::Test
  include ServerProgram

  RACKUP = <<~'RUBY'
    POOL = NB::ConnectionPool.new(size: 1, name: "backend", timeout: 60) { Object.new }
    def pool_wait = POOL.with { sleep 0.01 until File.exist?("go") }
    def spin = (nil until File.exist?("go"))
    run lambda { |env|
      pool_wait if env["PATH_INFO"].start_with?("/pool")
      spin if env["PATH_INFO"] == "/spin"
      NB.async(name: "mail\e[2J\e[1;1Hpwned\u009b31m\u202e") { sleep } if env["PATH_INFO"] == "/name"
      sleep 0.01 until File.exist?("go") if env["PATH_INFO"].start_with?("/wait")
      [200, {"content-type" => "text/plain"}, ["#{Process.pid}"]]
    }
  RUBY

  def setup
    super
    File.write("#{@dir}/config.ru", RACKUP)
    @clients = []
  end

  def teardown
    @tmux&.close
    go
    @clients.each(&:join)
    super
  end

  # Other tests do without the watchdog.
  def launch(*command, env: {}, **options)
    super(*command, env: {"NB_WATCHDOG" => "100", **env}, **options)
  end

  # On a busy machine a test may take longer than a request may.
  def start(*flags) = super(*flags, config: "request_timeout 600")

  # Requests that wait until #go.
  def request(*paths)
    @clients.concat(paths.map { |path| Thread.new { get(path) } })
    eventually { stats["workers"].sum { |worker| worker["running"].to_i } >= @clients.size }
  end

  def terminal(**size)
    Tmux.there? || missing("tmux")
    @tmux = Tmux.new(**size)
    @tmux.press("stty -a > #{@dir}/before; echo kept", "Enter")
    sees("kept")
    @tmux.press(Shellwords.join([*Program::NB, "top", "--interval", "0.2", @control]), "Enter")
    sees("requests")
  end

  def sees(*words)
    eventually { words.all? { |word| (@seen = @tmux.screen).include?(word) } }
    @seen
  end

  def so_far = [@seen, super].join("\n")

  # The shell's own screen, settings and cursor.
  def assert_restored
    eventually { (@seen = @tmux.screen).include?("kept") && @seen.rstrip.end_with?("ready>") }
    assert_predicate @tmux, :usual?
    @tmux.press("stty -a > #{@dir}/after; mv #{@dir}/after #{@dir}/afterward", "Enter")
    eventually { File.exist?("#{@dir}/afterward") }
    assert_equal File.read("#{@dir}/before"), File.read("#{@dir}/afterward")
  end

  def test_lists_keys_backtraces_and_nothing_is_left_behind
    start("-w", "2")
    eventually { workers.size == 2 }
    request("/wait/1", "/wait/2", "/pool/1", "/pool/2")
    terminal
    seen = sees("/wait/1", "/pool/2", "2 of 2 workers", "[requests 4]")
    assert_operator seen.lines(chomp: true).map(&:size).max, :<=, 80
    @tmux.press("Down", "Up", "Enter")
    sees("running for", "config.ru:")
    @tmux.press("Escape")
    sees("[requests 4]", "AGE")
    walk_the_lists
    @tmux.press("q")
    assert_restored
  end

  def walk_the_lists
    @tmux.press("Tab")
    sees("[fibers", "STATE")
    @tmux.press("3")
    sees("[pools", "backend")
    @tmux.press("Enter")
    sees("holders, each for at least", "config.ru:2")
    @tmux.press("4")
    sees("[workers 2]", "ready", workers.first["pid"].to_s)
    @tmux.press("5")
    sees("[stalls")
    @tmux.press("?")
    sees("sort by the next column")
  end

  def test_sorting
    start
    request("/wait/b", "/wait/a")
    terminal
    order = -> { sees("/wait/a", "/wait/b").scan(%r{/wait/[ab]}) }
    3.times { @tmux.press("s") } # from AGE over WAITED and METHOD to PATH
    eventually { order.call == %w[/wait/a /wait/b] && @seen.include?("PATH▾") }
    @tmux.press("r")
    eventually { order.call == %w[/wait/b /wait/a] }
    @tmux.press("q")
    assert_restored
  end

  def test_small_terminals_and_other_sizes
    start
    request("/wait/one")
    terminal
    [[40, 24], [40, 8], [20, 5], [132, 50], [80, 24]].each do |columns, rows|
      @tmux.resize(columns, rows)
      eventually { (@seen = @tmux.screen).include?(rows > 8 ? "/wait/one" : "nb top") && @seen.include?("q quit") }
      assert_equal 1, @seen.scan("nb top").size, "it was drawn beside the old picture"
      assert_equal rows, @tmux.lines.size
    end
    @tmux.press("q")
    assert_restored
  end

  def test_suspended_and_resumed
    start
    request("/wait/one")
    terminal
    sees("/wait/one")
    @tmux.press("C-z")
    eventually { (@seen = @tmux.screen) =~ /Stopped|Suspended/ && @seen.include?("kept") }
    assert_predicate @tmux, :usual?
    @tmux.press("fg", "Enter")
    sees("/wait/one", "q quit")
    @tmux.press("q")
    assert_restored
  end

  def test_a_signal_ends_it_and_leaves_nothing
    start
    %w[TERM INT HUP].each do |signal|
      terminal
      eventually { ours.any? }
      Process.kill(signal, ours.first)
      assert_restored
      @tmux.close
    end
  end

  # The pids of `nb top` that look at this test's server.
  def ours
    Dir["/proc/[0-9]*/cmdline"].filter_map do |path|
      words = File.read(path).split("\0")
      Integer(path[/\d+/]) if words.include?("top") && words.include?(@control)
    rescue SystemCallError
      nil
    end
  end

  def test_a_server_that_goes_away_and_comes_back
    start
    terminal
    finish
    sees("nothing answers at #{@control}")
    start
    eventually { !(@seen = @tmux.screen).include?("nobody") && @seen.include?("ready") }
    @tmux.press("q")
    assert_restored
  end

  # A name is anybody's text: it moves no cursor and clears no screen. (The server refuses a path
  # with such bytes.)
  def test_control_bytes_are_shown_and_do_nothing
    start
    get("/name")
    terminal(columns: 150)
    @tmux.press("2")
    assert_includes sees('mail\x1b[2J\x1b[1;1Hpwned\x9b31m\u{202e}'), "[fibers"
    @tmux.press("q")
    assert_restored
  end

  def test_a_loop_that_stands_still_is_told_of
    start
    request("/wait/one")
    spinning = Thread.new { get("/spin") }
    terminal
    sees("STANDS", "/spin", "/wait/one")
    @tmux.press("q")
    assert_restored
  ensure
    go
    spinning&.join
  end

  # For scripts: neither colors nor a cursor.
  def test_once_and_json
    start("-w", "1")
    eventually { workers.size == 1 }
    request("/pool/1", "/pool/2")
    out, err, status = Program.nb("top", "--once", "--interval", "0.2", @control)
    assert_equal ["", 0], [err, status.exitstatus]
    refute_includes out, "\e"
    ["[requests 2]", "[fibers", "[pools 1]", "[workers 1]", "[stalls", "/pool/1", "pool backend", "config.ru:2"].each do |word|
      assert_includes out, word
    end
    out, = Program.nb("top", "--once", "--json", "--interval", "0.2", @control)
    told = JSON.parse(out)
    assert_equal 2, told["workers"].first["requests"].size
    assert_equal [1, 1], told["workers"].first["pools"].first.values_at("in_use", "waiting")
    assert_operator told["rates"]["cpu"], :>=, 0
  end

  BAD = {
    [] => [2, "needs the address of a control socket"],
    ["unix:///nowhere/x"] => [1, "nothing answers at unix:///nowhere/x: No such file or directory"],
    ["app.control"] => [2, "address: must be unix://path or tcp://host:port, got: app.control"],
    ["tcp://127.0.0.1:1"] => [1, "nothing answers at tcp://127.0.0.1:1: Connection refused"],
    ["--interval", "0", "unix:///x"] => [2, "--interval: must be seconds from 0.1 to 3600, got: 0.0"],
    ["--fast", "unix:///x"] => [2, "invalid option: --fast"], ["a", "b"] => [2, "takes one address, got: a b"]
  }.freeze

  def test_bad_input_is_answered_in_one_sentence
    BAD.each do |arguments, (status, words)|
      out, err, ended = Program.nb("top", *arguments)
      assert_equal ["", status], [out, ended.exitstatus], arguments.inspect
      assert err.start_with?("nb top: #{words}"), err
      assert_operator err.lines.size, :<=, 2
    end
  end

  def test_without_a_terminal_it_says_what_to_do
    start
    _, err, status = Program.nb("top", @control)
    assert_equal ["nb top: needs a terminal that can move the cursor; use --once or --json instead\n", 1], [err, status.exitstatus]
  end

  EVIL = "\e]0;pwned\a\e[31m\u009b2J\n"
  ROW = {method: EVIL, path: EVIL, age_seconds: 1, waits_for: EVIL, waited_seconds: nil, id: 1, fiber: 2, backtrace: [EVIL]}.freeze
  SNAPSHOT = {
    time: 1.0, pid: 1, version: EVIL, ruby: EVIL, uptime_seconds: 1, ready: true, workers: [], requests: [ROW],
    loop: {fibers: {EVIL => 1}, stands_seconds: 1}, fibers: [ROW.merge(name: EVIL, state: EVIL, place: EVIL)],
    pools: [{name: EVIL, kind: EVIL, size: 1, in_use: 1, holders: [{name: EVIL, place: EVIL}], waiters: [{fiber: 2}]}],
    stalls: [{place: EVIL, method: EVIL, doing: EVIL, count: 1, longest_ms: 1, last_seconds_ago: 1}]
  }.freeze
  # What may answer at an address, and is no snapshot that can be shown.
  OTHERS = {
    "200 OK" => ["[]", "null", "5", "{}", '{"workers":5}', "[" * 9999, SNAPSHOT.merge(workers: ["a"]).to_json, SNAPSHOT.merge(uptime_seconds: "x").to_json,
                 SNAPSHOT.merge(requests: [{}]).to_json, SNAPSHOT.merge(pools: [{}]).to_json, SNAPSHOT.to_json.sub('"pid":1', '"pid":1,"memory_bytes":1e999')],
    "404 Not Found" => ['{"error":"there is /stats"}'], "500 Error" => ["[1]", "{}", "oops"]
  }.freeze

  # @yieldparam [String] the address of one who answers so, again and again
  def answering(status, body)
    UNIXServer.open("#{@dir}/other") do |server|
      thread = Thread.new { loop { server.accept.tap { |one| one.readpartial(100) && one.write("HTTP/1.0 #{status}\r\n\r\n", body) }.close } }
      yield "unix://#{@dir}/other"
    ensure
      thread&.kill
      File.unlink("#{@dir}/other")
    end
  end

  def test_whatever_else_answers_is_one_sentence
    require "neverblock/cli"
    require "neverblock/cli/dump"
    OTHERS.each do |status, bodies|
      bodies.each do |body|
        answering(status, body) do |address|
          error = assert_raises(NB::CLI::Failure, body) { NB::CLI::Dump.run([address]) }
          assert_match(/\A#{address} (answers with something other than a snapshot|has no snapshot: status \d+)[^\n]*\z/, error.message)
        end
      end
    end
  end

  def test_a_server_writes_on_nobodys_terminal
    answering("200 OK", SNAPSHOT.to_json) do |address|
      [["dump"], ["top", "--once", "--interval", "0.1"]].each do |words|
        out, err, status = Program.nb(*words, address)
        assert_equal ["", 0], [err, status.exitstatus], words
        assert_includes out, "pwned"
        refute_match(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/, out)
      end
    end
  end

  def test_something_else_that_answers
    UNIXServer.open("#{@dir}/other") do |server|
      answering = Thread.new { server.accept.tap { |one| one.readpartial(100) && one.write("HTTP/1.0 200 OK\r\n\r\n<html>") }.close }
      _, err, status = Program.nb("top", "--once", "unix://#{@dir}/other")
      answering.join
      assert_equal 1, status.exitstatus
      assert_match(/\Anb top: .* answers with something other than a snapshot\n\z/, err)
    end
  end
end
# rubocop:enable Layout/LineLength
