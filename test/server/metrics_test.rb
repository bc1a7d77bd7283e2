# frozen_string_literal: true

require_relative "helper"
require_relative "program"
require_relative "../support/prometheus"
require_relative "../support/ports"
require "net/http"
require "neverblock"
require "neverblock/server/launcher"

# What Prometheus is told: the format, the numbers, and that a blocked loop is told of too.
class ServerMetricsTest < Minitest::Test
  include ServerTest
  include Scrapes

  OPEN = "application/openmetrics-text"
  # What Prometheus 2.42 sends.
  PROMETHEUS = "#{OPEN};version=1.0.0,#{OPEN};version=0.0.1;q=0.75," \
               "text/plain;version=0.0.4;q=0.5,*/*;q=0.1".freeze

  def with_control(server, address = "tcp://127.0.0.1:0")
    metrics = -> { NB::Server::Metrics.samples(0 => server.metrics) }
    control = NB::Server::Control.new(address, stats: -> { server.stats },
      ready: -> { server.ready? }, requests: -> { server.requests }, metrics: metrics).start
    yield control.ports.first
  ensure
    control&.stop
  end

  def test_the_numbers_are_those_of_what_was_asked
    serve { |env| [Integer(env["PATH_INFO"].delete("/")), TEXT, ["five!"]] }
    %w[/200 /201 /302 /404 /500].each { |path| get(path) }
    with_control(@server) do |port|
      eventually { @server.stats[:requests] == 5 }
      [nil, PROMETHEUS].each do |accept|
        found = scrape(port, accept: accept)
        assert_equal [0, 2, 1, 1, 1, 0], %w[1xx 2xx 3xx 4xx 5xx other].map { |status|
          found["nb_http_requests_total", worker: 0, status: status]
        }
        assert_equal 5, found["nb_http_connections_accepted_total", worker: 0]
        assert_equal @server.stats[:response_bytes],
          found["nb_http_response_bytes_total", worker: 0]
        assert_operator found["nb_resident_memory_bytes", worker: 0], :>, 1 << 20
        assert_operator found["nb_loop_turns_total", worker: 0], :>, 0
      end
    end
  end

  def test_every_family_has_a_number
    pool = NB::ConnectionPool.new(size: 1, name: "backend") { Object.new }
    NB::DatabaseTime.count("SQLite", 0.001) # who counts is in test/rails and test/drivers
    serve(&HELLO)
    with_control(@server) do |port|
      of_master = %w[nb_ready nb_workers nb_workers_wanted nb_workers_started nb_workers_died
                     nb_worker_ready nb_worker_report_age_seconds]
      assert_equal NB::Server::Metrics::FAMILIES.keys.map(&:to_s) - of_master,
        scrape(port, accept: OPEN).types.keys
      assert_equal pool.size, scrape(port)["nb_pool_size", worker: 0, pool: "backend"]
    end
  end

  def test_pools_are_told_by_their_names
    pool = NB::ConnectionPool.new(size: 1, timeout: 0.05, name: "back\"end") { Object.new }
    entered = Thread::Queue.new
    gate = Thread::Queue.new
    serve do |env|
      pool.with { env["PATH_INFO"] == "/hold" && entered.push(1) && gate.pop }
      [200, TEXT, ["on"]]
    end
    with_control(@server) do |port|
      holder = Thread.new { get("/hold") }
      entered.pop
      asked = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      assert_match(/500/, get)
      took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - asked
      told = pool_of(scrape(port))
      assert_equal [1, 1, 0, 0, 1, 1], told.values_at(*%w[size in_use idle waiting waits_total
                                                         timeouts_total])
      assert_includes 0.045..took, told["wait_seconds_total"]
      gate.close
      holder.join
      eventually { pool_of(scrape(port)).values_at("in_use", "idle") == [0, 1] }
    end
  end

  def pool_of(found)
    %w[size in_use idle waiting waits_total wait_seconds_total timeouts_total].to_h do |name|
      [name, found["nb_pool_#{name}", worker: 0, pool: "back\"end"]]
    end
  end

  def test_tasks_are_told_by_their_names
    gate = Thread::Queue.new
    serve do
      ["mail \"er\"\n", "poller"].each { |name| NB.async(name: name) { gate.pop } }
      NB.async { gate.pop }
      [200, TEXT, ["on"]]
    end
    2.times { get }
    with_control(@server) do |port|
      assert_equal [2, 2, 0], tasks(port)
      gate.close
      eventually { tasks(port) == [0, 0, 0] }
    end
  end

  def tasks(port)
    found = scrape(port, accept: OPEN)
    ["mail \"er\"\n", "poller", "other"].map { |name| found["nb_tasks", worker: 0, name: name] }
  end

  # In a wait that does not ask the loop it stands still; the numbers come all the same.
  def test_a_blocked_loop_is_told_of
    reader, writer = IO.pipe
    serve do
      Fiber.new(blocking: true) { reader.read(1) }.resume
      [200, TEXT, ["on"]]
    end
    with_control(@server) do |port|
      asking = Thread.new { get }
      eventually { scrape(port)["nb_http_requests_running", worker: 0] == 1 }
      turns = Array.new(2) { scrape(port)["nb_loop_turns_total", worker: 0] }.uniq
      assert_equal 1, turns.size, "it does not stand still"
      writer.write(".")
      assert_match(/on\z/, asking.value)
    ensure
      writer.close
      reader.close
    end
  end

  # The kernel's own word for it, in kB whatever the size of a page.
  def test_the_resident_memory_is_the_kernels
    status = File.read("/proc/self/status")[/^VmRSS:\s*(\d+) kB/, 1] or skip "no /proc"
    assert_in_epsilon Integer(status), NB::Server::Metrics.resident_kb, 0.1
  end

  # Which form who gets: 1 is OpenMetrics.
  ACCEPTED = {nil => 0, "*/*" => 0, "text/plain" => 0, PROMETHEUS => 1, OPEN => 1,
              "#{OPEN};q=0" => 0, "text/plain;q=0.9, #{OPEN};q=0.3" => 0,
              "text/plain;q=0.2, #{OPEN} ; version=1.0.0 ;q=0.3" => 1,
              "nonsense;;q=,;q=x" => 0}.freeze

  def test_who_gets_which_form
    ACCEPTED.each do |accept, form|
      assert_equal [PrometheusText::PLAIN, PrometheusText::OPEN][form],
        NB::Server::Exposition.for(accept).type, accept.inspect
    end
  end

  def test_no_label_breaks_a_line
    ["a\"b", "a\\b", "a\nb", "\\n\"", "jos\u00e9"].each do |text|
      [nil, OPEN].each do |accept|
        form = NB::Server::Exposition.for(accept)
        out = form.text({nb_workers: [[{place: text}, 1.5e-7]]})
        assert_equal 1.5e-7, PrometheusText.new(out, form.type)["nb_workers", place: text]
      end
    end
  end

  def test_fibers_are_counted_by_what_they_wait_for
    serve do
      3.times { NB.async { sleep 60 } }
      2.times { NB.async { Thread::Queue.new.pop } }
      [200, TEXT, ["on"]]
    end
    with_control(@server) do |port|
      before = waiting(port)
      get
      eventually { waiting(port).zip(before).map { |now, was| now - was } == [3, 2] }
    end
  end

  def waiting(port)
    %w[sleep block].map { |kind| scrape(port)["nb_loop_waiting", worker: 0, kind: kind] }
  end

  # Whose name points at this machine, and whose script asks (DNS rebinding).
  def test_a_foreign_site_reads_no_numbers
    serve(&HELLO)
    with_control(@server) do |port|
      {"evil.example:#{port}" => "403", "evil.example" => "403", "localhost:#{port}" => "200",
       "127.0.0.1:#{port}" => "200", "[::1]:#{port}" => "200", "LOCALHOST." => "200",
       "#{Socket.gethostname}:#{port}" => "200"}.each do |host, code|
        {"/metrics" => code, "/stats" => code, "/ready" => "200"}.each do |path, expected|
          answer = Net::HTTP.start("127.0.0.1", port) { |http| http.get(path, "Host" => host) }
          assert_equal expected, answer.code, "#{host} #{path}"
        end
      end
      assert_equal 200, NB::Server::Control.exchange("tcp://127.0.0.1:#{port}", "/stats").first
    end
  end

  # A socket at :: hears the loopback of IPv4, too, by an address of its own form.
  def test_a_foreign_site_reads_no_numbers_by_the_other_loopback
    serve(&HELLO)
    with_control(@server, "tcp://[::]:0") do |port|
      answer = Net::HTTP.start("127.0.0.1", port) { |http| http.get("/stats", "Host" => "a.example") }
      assert_equal "403", answer.code
    end
  end

  # It tells the paths and backtraces of others' requests.
  def test_by_tcp_there_is_no_list_of_requests
    serve(&HELLO)
    with_control(@server) do |port|
      assert_match(/there are/, NB::Server::Control.ask("tcp://127.0.0.1:#{port}", "/requests"))
      assert_equal({"ready" => true},
        JSON.parse(NB::Server::Control.ask("tcp://127.0.0.1:#{port}", "/ready")))
    end
  end
end

# The numbers of a cluster, which its master tells.
class ServerClusterMetricsTest < Minitest::Test
  include ServerProgram
  include Scrapes

  def setup
    super
    @port = Ports.free
  end

  def start_cluster(**options)
    start("-w", "2", "--control", "tcp://127.0.0.1:#{@port}", **options)
    eventually { workers.size == 2 }
  end

  def requests(found) = found.sum("nb_http_requests_total", status: "2xx")

  # Scrapes until the block, given what was found, is true; nothing may have fallen meanwhile, nor
  # since `before`. While the master becomes another program nobody listens.
  def watch(before = {})
    eventually do
      found = scrape(@port)
      before.each { |key, value| assert_operator found.values.fetch(key), :>=, value, key }
      before = found.counters
      yield found
    rescue SystemCallError, EOFError
      next
    end
    before
  end

  def test_nothing_is_lost_when_workers_are_replaced
    start_cluster
    old = pids
    50.times { get }
    Process.kill("USR1", @pid)
    watch { |found| found["nb_workers_started_total"] == 4 && found["nb_workers"] == 2 }
    10.times { get }
    watch { |found| requests(found) == 60 }
    eventually { (pids & old).empty? }
    assert_equal 0, scrape(@port)["nb_workers_died_total"]
    finish
  end

  # Of a killed worker's tasks none runs; those of its successor do.
  def test_tasks_are_told_by_their_names
    File.write("#{@dir}/config.ru", <<~'RUBY')
      require "neverblock"
      run lambda { |env|
        NB.async(name: env["PATH_INFO"].delete("/")) { sleep }
        [200, {"content-type" => "text/plain"}, ["#{Process.pid}"]]
      }
    RUBY
    start_cluster
    pids = %w[/mailer /mailer /poller].map { |path| get(path) }
    watch { |found| running(found) == [2, 1] }
    Process.kill("KILL", pids.last)
    left = pids.map { |pid| pid == pids.last ? 0 : 1 }
    watch do |found|
      found["nb_workers"] == 2 && running(found) == [left.first(2).sum, left.last]
    end
    finish("QUIT")
  end

  def running(found) = %w[mailer poller].map { |name| found.sum("nb_tasks", name: name) }

  def test_what_a_killed_worker_counted_stays
    start_cluster
    20.times { get }
    watch { |found| requests(found) == 20 }
    Process.kill("KILL", pids.first)
    watch { |found| found["nb_workers_died_total"] == 1 && found["nb_workers"] == 2 }
    assert_equal 20, requests(scrape(@port))
    finish
  end

  # What had ended before, and what the old workers will report only after the new ones.
  def test_nothing_is_lost_when_the_master_is_replaced
    start_cluster
    20.times { get }
    Process.kill("KILL", pids.first) if watch { |found| requests(found) == 20 }
    counted = watch { |found| found["nb_workers_died_total"] == 1 && found["nb_workers"] == 2 }
    2.times do |turn|
      old = pids
      Process.kill("USR2", @pid)
      counted = watch(counted) do |found|
        found["nb_workers"] == 2 && found["nb_workers_started_total"] == 5 + (2 * turn)
      end
      assert_empty pids & old
    end
    assert_equal 20, requests(scrape(@port))
    finish
  end

  def test_the_numbers_of_a_worker_that_stands_still_grow_old
    start_cluster
    5.times { get }
    watch { |found| requests(found) == 5 }
    stopped = workers.find { |worker| worker["index"].zero? }["pid"]
    Process.kill("STOP", stopped)
    watch { |found| found["nb_worker_report_age_seconds", worker: 0] > 2.5 }
    found = scrape(@port)
    assert_equal 5, requests(found)
    assert_equal 1, found["nb_ready"]
    Process.kill("CONT", stopped)
    watch { |now| now["nb_worker_report_age_seconds", worker: 0] < 1 }
    finish
  end
end
