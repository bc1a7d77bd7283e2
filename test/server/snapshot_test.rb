# frozen_string_literal: true

require_relative "helper"
require_relative "program"
require "open3"
require "neverblock"
require "neverblock/server/launcher"

# GET /snapshot: what a process tells of itself, also while its loop stands still.
class ServerSnapshotTest < Minitest::Test
  include ServerTest

  KEYS = %i[time pid version ruby uptime_seconds ready draining workers loop requests
            requests_left_out fibers fibers_left_out pools jobs stalls memory_bytes gc cpu_seconds
            connections accepted http queued running fibers_max].freeze

  def start_requests(*paths)
    sockets = paths.map do |path|
      head = "GET #{path} HTTP/1.1\r\n#{HOST}X-Secret: s3cret\r\n\r\n"
      connect.tap { |socket| socket.write(head) }
    end
    eventually { @server.stats[:running] >= paths.size }
    sockets
  end

  def test_it_tells_of_requests_and_fibers_and_of_nothing_secret
    gate = Thread::Queue.new
    serve do |env|
      Thread.current[:secret] = env["QUERY_STRING"]
      NB.async(name: "mailer") { gate.pop } if env["PATH_INFO"] == "/a"
      gate.pop && [200, TEXT, ["on"]]
    end
    start_requests("/a?password=s3cret", "/%3Cscript%3E")
    snapshot = @server.snapshot
    assert_equal KEYS.sort, snapshot.keys.sort
    assert_requests(snapshot)
    mailer = snapshot[:fibers].find { |fiber| fiber[:name] == "mailer" }
    assert_equal ["waiting", :block], mailer.values_at(:state, :kind)
    assert_match(/#{__FILE__}:\d+/o, mailer[:place])
    refute_includes JSON.generate(snapshot), "s3cret"
  ensure
    2.times { gate << true }
    gate.close
  end

  def assert_requests(snapshot)
    requests = snapshot[:requests]
    assert_equal [%w[GET /a], %w[GET /%3Cscript%3E]],
      requests.map { |one| one.values_at(:method, :path) }
    requests.each do |request|
      assert_match(/\A#<Thread::Queue:0x\h+>\z/, request[:waits_for])
      # The age is read first.
      assert_operator request[:age_seconds] + 5, :>, request[:waited_seconds]
      assert(request[:backtrace].any? { |line| line.start_with?(__FILE__) })
      fiber = snapshot[:fibers].find { |one| one[:id] == request[:fiber] }
      assert_equal "GET #{request[:path]}", fiber[:name]
    end
  end

  def test_the_server_alone_tells_it_too
    program = "server = NB::Server.new(nil); p server.snapshot[:pools]; p NB::Page.call({})[0]"
    lib = File.expand_path("../../lib", __dir__)
    out, status = Open3.capture2e(RbConfig.ruby, "-I#{lib}", "-rneverblock/server", "-e", program)
    assert_equal ["[]\n405\n", true], [out, status.success?]
  end

  # More than NB.pools lists; by the name of the request in both lists.
  def test_a_wait_for_a_pool_is_told_as_such
    gate = Thread::Queue.new
    pool = NB::ConnectionPool.new(size: 1, timeout: nil, name: "backend") { Object.new }
    serve { pool.with { gate.pop } && [200, TEXT, ["on"]] }
    start_requests(*(0..30).map { |i| "/#{i}" })
    snapshot = eventually { @server.snapshot.then { |one| one if backend(one)[:waiting] == 30 } }
    subjects = snapshot[:requests].map { |one| one[:waits_for] }.grep_v(/\A#/) # the holder's
    assert_equal({"pool backend" => 30}, subjects.tally)
    users = backend(snapshot).values_at(:holders, :waiters).flatten
    assert_equal 21, users.size
    users.each { |one| assert_match(%r{\AGET /\d+\z}, one[:name]) }
  ensure
    31.times { gate << true }
  end

  def backend(snapshot) = snapshot[:pools].find { |pool| pool[:name] == "backend" }

  # Of those who wait longest, and of those asked for.
  def test_it_says_how_many_are_left_out
    gate = Thread::Queue.new
    serve { gate.pop && [200, TEXT, ["on"]] }
    start_requests(*%w[/a /b /c])
    snapshot = @server.snapshot(fibers: 1, requests: 2, frames: 1)
    assert_equal %w[/a /b], snapshot[:requests].map { |request| request[:path] }
    assert_equal 1, snapshot[:requests_left_out]
    assert_equal 3, snapshot[:fibers].size
    assert_operator snapshot[:fibers_left_out], :>=, 1
    assert_equal [1], snapshot[:fibers].map { |fiber| fiber[:backtrace].size }.uniq
  ensure
    3.times { gate << true }
  end

  def test_fibers_are_counted_by_what_they_wait_for
    reader, writer = IO.pipe
    serve do
      NB.async { sleep 60 }
      NB.async { reader.gets }
      [200, TEXT, ["on"]]
    end
    before = @server.snapshot[:loop][:waiting]
    get
    eventually do
      after = @server.snapshot[:loop][:waiting]
      %i[sleep io].map { |kind| after[kind] - before[kind] } == [1, 1]
    end
  ensure
    writer.close
  end

  def test_what_is_no_detail
    error = assert_raises(ArgumentError) { NB::Server::Snapshot.detail("fibers=x") }
    assert_equal "snapshot: fibers must be 0 to 100000, got: x", error.message
    error = assert_raises(ArgumentError) { NB::Server::Snapshot.detail("colour=1") }
    assert_equal "snapshot: colour must be one of fibers requests frames, got: 1", error.message
    assert_equal({fibers: 3, frames: 0}, NB::Server::Snapshot.detail("fibers=3&frames=0"))
  end

  # It runs no code of objects that are waited for.
  def test_an_object_that_is_waited_for_tells_nothing_of_itself
    queue = Class.new(Thread::Queue) { def inspect = raise("asked") }.new
    serve { queue.pop && [200, TEXT, ["on"]] }
    start_requests("/")
    assert_match(/\A#<#<Class:0x\h+>:0x\h+>\z/, @server.snapshot[:requests].first[:waits_for])
  ensure
    queue << true
  end

  def test_a_crowd_costs_the_loop_little
    serve do
      5000.times { NB.async { deep(30) } }
      [200, TEXT, ["on"]]
    end
    get
    @server.snapshot # loads
    before = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
    snapshot = @server.snapshot
    took = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - before
    assert_operator snapshot[:fibers].size, :<=, 201
    assert_operator snapshot[:fibers_left_out], :>=, 4800
    assert_operator took, :<, 0.5
  end

  def deep(count) = count.zero? ? sleep(60) : deep(count - 1)
end

# The same of `nb serve`, which is asked at its control socket.
class ServerSnapshotProgramTest < Minitest::Test
  include ServerProgram

  # Other tests do without.
  def launch(*command, env: {}, **options)
    super(*command, env: {"NB_WATCHDOG" => "100", **env}, **options)
  end

  STUCK = <<~RUBY
    run lambda { |env|
      sleep 0.01 until File.exist?("go") if env["PATH_INFO"] == "/wait"
      nil until File.exist?("go") if env["PATH_INFO"] == "/compute"
      300.times { NB.async { sleep } } if env["PATH_INFO"] == "/crowd"
      10_000_000.times { nil } until env["PATH_INFO"] != "/spin" || File.exist?("go") # keeps the GVL
      wait = -> { sleep 0.05 until File.exist?("go") }
      Fiber.new(blocking: true, &wait).resume if env["PATH_INFO"] == "/asleep"
      [200, {"content-type" => "text/plain"}, ["\#{Process.pid}"]]
    }
  RUBY

  def setup
    super
    File.write("#{@dir}/config.ru", STUCK)
  end

  def snapshot(query = "")
    JSON.parse(NB::Server::Control.ask(@control, "/snapshot#{query}"))
  end

  def paths(snapshot) = snapshot["requests"].map { |request| request["path"] }

  # The line of STUCK where each stands. Until it is told nobody asks: on a busy machine, who
  # answers may have the GVL for long, and the loop would rather wait for that.
  {"/compute" => 3, "/asleep" => 6}.each do |path, line|
    define_method("test_a_loop_that_stands_still_is_told_of_at_#{path.delete("/")}") do
      start
      answers = [Thread.new { get("/wait") }]
      eventually { paths(snapshot) == %w[/wait] }
      answers << Thread.new { get(path) }
      eventually { log.match?(/has stood still for \d+ ms at config\.ru:#{line}:/) }
      assert_stuck(snapshot, path, line)
      go
      assert_equal [@pid, @pid], answers.map(&:value)
      assert_equal [], snapshot["requests"]
      finish
    end
  end

  # Others may have been before: on a crowded machine a server may start slowly.
  def stall_of(snapshot, line)
    snapshot["stalls"].find { |stall| stall["place"].include?("config.ru:#{line}:") }
  end

  def assert_stuck(snapshot, path, line)
    assert_operator snapshot["loop"]["stands_seconds"], :>, 0.1
    assert_equal ["/wait", path], paths(snapshot)
    running = snapshot["fibers"].find { |fiber| fiber["state"] == "running" }
    assert_equal "GET #{path}", running["name"]
    stall = stall_of(snapshot, line)
    doing = path == "/compute" ? /computes|collects/ : /waits outside the loop/
    assert_match(doing, stall["doing"])
    assert_equal 1, stall["count"]
    assert_operator stall["longest_ms"], :>=, 100
  end

  # Each turn that it gives to a loop that computes lasts 0.1 s, and the master waits for a second.
  def test_a_worker_with_many_fibers_tells_while_it_computes
    start("-w", "1")
    get("/crowd")
    answer = Thread.new { get("/spin") }
    crowd = eventually { snapshot["workers"].find { |one| paths(one) == ["/spin"] } }
    found = [crowd, *Array.new(4) { snapshot("?fibers=500&requests=500")["workers"].first }]
    assert_equal [nil] * 5, found.map { |worker| worker["silent"] }
    assert_operator crowd["fibers"].size, :>, 190
    assert_operator found.last["fibers"].size, :>, 300
    out, status = Open3.capture2e(RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, NB_PROGRAM,
      "dump", @control)
    assert_predicate status, :success?, out
    assert_equal [0, 301], [out.scan("does not answer").size, out.scan(/^fiber .* for sleep/).size]
    go
    answer.join
    finish("QUIT") # the crowd sleeps on
  end

  def test_a_cluster_tells_of_each_worker
    start("-w", "2")
    eventually { workers.size == 2 }
    answers = Array.new(4) { Thread.new { get("/wait") } }
    found = eventually do
      now = snapshot
      now if now["workers"].sum { |worker| worker["requests"].size } == 4
    end
    assert_equal pids.sort, found["workers"].map { |worker| worker["pid"] }.sort
    assert_equal [0, 1], found["workers"].map { |worker| worker["index"] }
    assert_equal [@pid, 4, true], found.values_at("pid", "running", "ready")
    go
    answers.each(&:join)
    finish
  end

  # Stopped by a signal, no thread of it runs.
  def test_a_worker_that_does_not_answer_is_told_by_what_the_master_knows
    start("-w", "2")
    eventually { (now = workers).size == 2 && now.all? { |worker| worker["rss_kb"] } }
    Process.kill("STOP", stopped = pids.first)
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    silent, other = snapshot["workers"].partition { |worker| worker["silent"] }
    assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - began, :<, 20
    assert_equal [[stopped], 1], [silent.map { |worker| worker["pid"] }, other.size]
    assert_operator silent.first["memory_bytes"], :>, 1 << 20
    Process.kill("CONT", stopped)
    eventually { snapshot["workers"].none? { |worker| worker["silent"] } }
    finish
  end

  def test_old_workers_answer_a_new_master
    start("-w", "1", config: "preload_app!")
    old = eventually { pids.first }
    answer = Thread.new { get("/wait") }
    eventually { snapshot["running"] == 1 }
    Process.kill("USR2", @pid)
    found = eventually do
      now = snapshot
      now if now["workers"].size == 2 && now["workers"].none? { |worker| worker["silent"] }
    rescue SystemCallError, EOFError
      nil # between two masters
    end
    assert_equal ["/wait"], found["workers"].flat_map { |worker| paths(worker) }
    go
    assert_equal old, answer.value
    finish
  end

  def test_it_is_told_at_unix_sockets_only
    port = NB::Server::Control.new("tcp://127.0.0.1:0", stats: -> {}, ready: -> { true })
    port.start
    status, body = NB::Server::Control.exchange("tcp://127.0.0.1:#{port.ports.first}", "/snapshot")
    assert_equal 404, status
    assert_includes body, "by unix:// /requests /snapshot"
  ensure
    port.stop
  end

  def test_a_detail_that_is_none
    start
    status, body = NB::Server::Control.exchange(@control, "/snapshot?frames=201")
    assert_equal [400, {"error" => "snapshot: frames must be 0 to 200, got: 201"}],
      [status, JSON.parse(body)]
    assert_equal [], snapshot("?fibers=0")["fibers"]
    finish
  end
end
