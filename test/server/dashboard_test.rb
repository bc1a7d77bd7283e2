# frozen_string_literal: true

require "net/http"
require "open3"
require_relative "program"
require_relative "../support/prometheus"
require_relative "../support/ports"

# A Prometheus that scrapes a cluster, and the panels of examples/grafana asked of it.
class ServerDashboardTest < Minitest::Test
  include ServerProgram
  include Scrapes

  ROOT = File.expand_path("../..", __dir__)
  PROGRAMS = "#{ROOT}/tmp/prometheus/usr/bin".freeze
  DASHBOARD = JSON.parse(File.read("#{ROOT}/examples/grafana/neverblock.json"))
  # What Grafana puts in place of its variables.
  VARIABLES = {"$job" => "app", "$instance" => ".*", "$__rate_interval" => "60s"}.freeze
  REQUESTS = 40
  CONFIGURATION = <<~YAML
    global: {scrape_interval: 500ms, scrape_timeout: 500ms}
    scrape_configs:
      - {job_name: app, static_configs: [{targets: ["127.0.0.1:%d"]}]}
  YAML
  # Asks a database in each request, with a connection of a pool.
  RACKUP = <<~RUBY.freeze
    require "active_record"
    ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:")
    POOL = NB::ConnectionPool.new(size: 2, name: "backend") { Object.new }
    run lambda { |env|
      POOL.with { sleep 0.3 if env["PATH_INFO"] == "/slow" }
      ActiveRecord::Base.with_connection { |connection| connection.select_value("SELECT 1") }
      [200, {"content-type" => "text/plain"}, ["\#{Process.pid}"]]
    }
  RUBY

  def setup
    super
    File.write("#{@dir}/config.ru", RACKUP)
  end

  def start_cluster
    skip "bin/setup could not get Prometheus" unless File.executable?("#{PROGRAMS}/prometheus")
    @port = Ports.free
    start("-w", "2", "--control", "tcp://127.0.0.1:#{@port}")
    eventually { workers.size == 2 }
  end

  def teardown
    if @prometheus
      Process.kill("KILL", @prometheus)
      Process.wait(@prometheus)
    end
    super
  end

  def start_prometheus
    File.write("#{@dir}/prometheus.yml", format(CONFIGURATION, @port))
    flags = {"config.file" => "#{@dir}/prometheus.yml", "storage.tsdb.path" => "#{@dir}/data",
             "web.listen-address" => "127.0.0.1:#{@web = Ports.free}", "log.level" => "error"}
    @prometheus = spawn("#{PROGRAMS}/prometheus", *flags.map { |name, value| "--#{name}=#{value}" },
      %i[out err] => @log)
  end

  # @return [Array<Float>] of each series its value now; 0 for NaN, as of a rate of nothing
  def ask(expression)
    answer = Net::HTTP.get(URI("http://127.0.0.1:#{@web}/api/v1/query?" \
                               "#{URI.encode_www_form(query: expression)}"))
    answer = JSON.parse(answer)
    assert_equal "success", answer["status"], "#{expression}: #{answer["error"]}"
    answer["data"]["result"].map { |row| row["value"].last.to_f }
  rescue Errno::ECONNREFUSED, JSON::ParserError
    [] # it has not begun yet
  end

  # A rate takes two scrapes, and a busy cluster may miss one.
  def so_far = [@asked, ask(@asked.to_s), super].join("\n")

  def panels = DASHBOARD["panels"].reject { |panel| panel["type"] == "row" }

  def expressions
    panels.flat_map { |panel| panel["targets"].map { |target| target["expr"] } }
          .map { |text| VARIABLES.reduce(text) { |all, (name, value)| all.gsub(name, value) } }
  end

  def test_every_panel_shows_what_was_served
    start_cluster
    start_prometheus
    eventually { ask("sum(up)") == [1.0] }
    REQUESTS.times { |index| get(index.modulo(5).zero? ? "/slow" : "/") }
    eventually { ask('sum(nb_http_requests_total{status="2xx"})') == [REQUESTS.to_f] }
    expressions.each { |expression| eventually { @asked = expression and ask(expression).any? } }
    @asked = expressions.grep(/0\.99.*application/).first
    eventually { ask(@asked).first.to_f > 0.2 } # seconds of /slow
    finish
  end

  def test_promtool_has_nothing_to_say
    start_cluster
    get
    text, = metrics_of(@port)
    out, status = Open3.capture2e("#{PROGRAMS}/promtool", "check", "metrics", stdin_data: text)
    assert_equal ["", true], [out, status.success?]
  end

  def test_no_panel_lies_upon_another_and_each_says_what_it_is
    taken = panels.flat_map do |panel|
      refute_empty panel["description"], panel["title"]
      x, y, width, height = panel["gridPos"].values_at("x", "y", "w", "h")
      (x...(x + width)).to_a.product((y...(y + height)).to_a)
    end
    assert_equal taken.uniq, taken
  end
end
