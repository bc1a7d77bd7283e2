# frozen_string_literal: true

require_relative "program"
require_relative "../support/missing"
require_relative "../support/prometheus"
require_relative "../support/ports"

# What the Prometheus project's own client library reads in /metrics of a cluster under load. Debian
# has promtool only in `prometheus`, which brings 320 MB and a daemon; its complaints are in
# PrometheusText.
class ServerPrometheusTest < Minitest::Test
  include ServerProgram
  include Scrapes

  LIBRARY = "/usr/lib/python3/dist-packages/prometheus_client"
  # Raises ValueError for what OpenMetrics forbids: a bucket that falls, +Inf that is not the count,
  # a fraction or less than nothing counted, a name twice. In the plain form it checks less.
  READER = <<~PYTHON
    import json, sys
    sys.path.insert(0, sys.argv[1])
    from prometheus_client import parser
    from prometheus_client.openmetrics import parser as openmetrics
    def read(path):
        reader = openmetrics if path.endswith(".open") else parser
        with open(path, newline="") as file:
            families = list(reader.text_string_to_metric_families(file.read()))
        return [[f.name, f.type, [[s.name, s.labels, s.value] for s in f.samples]] for f in families]
    json.dump([read(path) for path in sys.argv[2:]], sys.stdout)
  PYTHON
  FORMS = {".plain" => "text/plain", ".open" => "application/openmetrics-text"}.freeze
  HISTOGRAMS = %w[queue application first_byte].map { |what| "nb_http_#{what}_seconds" }.freeze
  CLIENTS = 3
  PART = 200 # requests
  PACE = 0.02

  def setup
    Dir.exist?(LIBRARY) || missing("python3-prometheus-client")
    super
    @port = Ports.free
    start("-w", "2", "--control", "tcp://127.0.0.1:#{@port}")
    eventually { workers.size == 2 }
  end

  # By clients of any worker; one that is killed breaks its connections off.
  def under_load
    going = true
    clients = Array.new(CLIENTS) do
      Thread.new do
        get while going
      rescue Errno::ECONNRESET, Errno::EPIPE
        retry
      end
    end
    yield
  ensure
    going = false
    clients&.each(&:join)
  end

  # In a thread each, one scrape after the other. @return [Array<Array<String>>] the files
  def scraped(&block)
    going = true
    scrapers = FORMS.map do |ending, accept|
      Thread.new do
        all = []
        all << save("#{@dir}/#{all.size}#{ending}", accept) && sleep(PACE) while going
        all
      end
    end
    under_load(&block)
    going = false
    scrapers.map(&:value)
  ensure
    going = false
    scrapers&.each(&:join)
  end

  def save(path, accept)
    File.write(path, metrics_of(@port, accept: accept).first)
    path
  end

  def served = scrape(@port).sum("nb_http_requests_total", status: "2xx")

  def serve_more(count = PART)
    goal = served + count
    eventually { served >= goal }
  end

  # @return [Array<Array>] of each file its families: name, type, samples
  def read(files)
    out = IO.popen(["/usr/bin/python3", "-c", READER, File.dirname(LIBRARY), *files], &:read)
    assert_predicate $?, :success?, "the reader refused one of #{files.size} files, see above"
    JSON.parse(out)
  end

  def assert_nothing_falls(readings)
    readings.map { |families| counted(families) }.each_cons(2) do |before, after|
      before.each { |key, value| assert_operator after.fetch(key), :>=, value, key }
    end
  end

  def counted(families)
    families.select { |_, type, _| %w[counter histogram].include?(type) }
            .flat_map(&:last).to_h { |name, labels, value| [[name, labels], value] }
  end

  # As many in each histogram as there were requests: a worker reports between two of them.
  def assert_histograms_are_whole(families)
    requests = by_worker(families, "nb_http_requests")
    HISTOGRAMS.each do |name|
      by_worker(families, name).each do |worker, rows|
        counts = rows.filter_map { |sample, _, value| value if sample == "#{name}_bucket" }
        assert_equal counts.sort, counts, name
        assert_equal counts.last, rows.assoc("#{name}_count").last, name
        assert_equal counts.last, requests.fetch(worker).sum(&:last), name
        assert_operator rows.assoc("#{name}_sum").last, :>=, 0, name
      end
    end
  end

  def by_worker(families, name)
    families.assoc(name).last.group_by { |_, labels, _| labels["worker"] }
  end

  def test_its_reader_takes_every_answer_while_a_worker_is_killed
    files = scraped do
      serve_more
      Process.kill("KILL", pids.first)
      eventually { scrape(@port)["nb_workers_died_total"] == 1 && workers.size == 2 }
      serve_more
    end
    files.each do |of_one|
      readings = read(of_one)
      assert_equal %w[0 1], by_worker(readings.last, HISTOGRAMS.first).keys.sort
      readings.each { |families| assert_histograms_are_whole(families) }
      assert_nothing_falls(readings)
    end
    finish
  end
end
