# frozen_string_literal: true

require_relative "helper"
require_relative "../support/prometheus"
require "json"
require "neverblock/server/exposition"

# How long requests waited and took: the histograms, and the wait that a proxy tells of.
class ServerTimingTest < Minitest::Test
  include ServerTest

  AGO = 300 # no busy machine takes so long, nor half of it
  # How proxies write a time: nginx, HAProxy and Heroku, and finer ones.
  FORMS = {
    "nginx" => ->(time) { format("t=%.3f", time) },
    "seconds" => ->(time) { time.to_i.to_s },
    "fraction" => ->(time) { format("%.9f", time) },
    "milliseconds" => ->(time) { (time * 1e3).to_i.to_s },
    "milliseconds_with_fraction" => ->(time) { format("%.3f", time * 1e3) },
    "heroku_router" => ->(time) { "t=#{(time * 1e3).to_i}" },
    "microseconds" => ->(time) { "t=#{(time * 1e6).to_i}" },
    "nanoseconds" => ->(time) { (time * 1e9).to_i.to_s }
  }.freeze
  NONSENSE = ["", "t=", "t", "x", "-1", "0", "t=0", "123456789", "12345678901", "1e9", "nan",
              "9999999999999999999", "99999999999999999999", "1" * 200, "t=t=1", "0000000001",
              "0x1234567890"].freeze

  def now = Process.clock_gettime(Process::CLOCK_REALTIME)

  # What the application is told, in seconds.
  def queue(field, name: "X-Request-Start")
    serve { |env| [200, TEXT, [env["neverblock.queue_seconds"].inspect]] } unless @server
    Float(get("/", "#{name}: #{field}\r\n").split("\r\n\r\n").last)
  end

  FORMS.each do |name, form|
    define_method("test_a_wait_before_the_server_counts_#{name}") do
      assert_includes (AGO - 0.001)..(AGO * 2), queue(form.call(now - AGO)) # "%.3f" may round up
    end
  end

  def test_the_older_name_says_the_same
    assert_operator queue(format("t=%.3f", now - AGO), name: "X-Queue-Start"), :>=, AGO - 0.01
  end

  def test_nonsense_and_wrong_clocks_count_for_nothing
    past = format("%.3f", now - AGO)
    wrong = [format("%.3f", now + AGO), format("%.3f", now - 3600), "#{past}x", "#{past},#{past}",
             "#{past}.1", "u=#{past}"]
    (NONSENSE + wrong).each do |field|
      assert_includes 0.0..(AGO / 2), queue(field), field
    end
  end

  def test_without_a_proxy_it_is_our_own_wait
    gate = Thread::Queue.new
    serve(fibers: 1) { |env| [200, TEXT, [gate.pop, env["neverblock.queue_seconds"].to_s]] }
    first, second = Array.new(2) { Thread.new { get } }
    eventually { @server.stats[:queued] == 1 }
    sleep 0.1
    2.times { gate << "" }
    waits = [first, second].map { |asking| Float(asking.value.split("\r\n\r\n").last) }
    assert_operator waits.max, :>=, 0.1
  end

  # The client's time for its body is not the server's.
  def test_what_the_body_took_is_not_counted
    serve { |env| [200, TEXT, [env["neverblock.queue_seconds"].to_s]] }
    start = now
    socket = connect
    socket.write("POST / HTTP/1.1\r\n#{HOST}X-Request-Start: #{start}\r\nContent-Length: 1\r\n" \
                 "Connection: close\r\n\r\n")
    get # then the server has seen the head
    sleep 0.5
    socket.write("x")
    waited = Float(socket.read.split("\r\n\r\n").last)
    assert_operator waited, :<, now - start - 0.4
  end

  def test_the_access_log_tells_it
    out = StringIO.new
    serve(access_log: out, access_log_format: :json, &HELLO)
    get("/", "X-Request-Start: t=#{now - AGO}\r\n")
    eventually { out.string.end_with?("\n") }
    assert_operator JSON.parse(out.string)["queue_ms"], :>=, AGO * 1000
  end

  def scraped
    form = NB::Server::Exposition.for(nil)
    text = form.text(NB::Server::Metrics.samples(0 => @server.metrics))
    PrometheusText.new(text, form.type)
  end

  def value(found, name, part, **labels) # rubocop:disable Metrics/ParameterLists
    found["nb_http_#{name}_seconds_#{part}", worker: 0, **labels]
  end

  def test_each_request_is_in_each_histogram
    serve { |env| sleep(env["PATH_INFO"] == "/slow" ? 0.06 : 0) && [200, TEXT, ["a"]] }
    3.times { get }
    get("/slow", "X-Request-Start: #{now - AGO}\r\n")
    eventually { @server.stats[:requests] == 4 }
    found = scraped
    %w[queue application first_byte].each { |name| assert_equal 4, value(found, name, "count") }
    assert_operator value(found, "application", "bucket", le: 0.05), :<=, 3
    assert_operator value(found, "application", "sum"), :>=, 0.06
    %w[queue first_byte].each do |name|
      assert_equal 3, value(found, name, "bucket", le: 60.0), name
      assert_operator value(found, name, "sum"), :>=, AGO
    end
  end

  # Of a body in parts the application's time has all, the first byte's its beginning.
  def test_a_body_in_parts
    serve { [200, TEXT, Enumerator.new { |out| (out << "a") && sleep(0.2) && (out << "b") }] }
    get
    eventually { @server.stats[:requests] == 1 }
    queue, application, first = %w[queue application first_byte].map { |name|
      value(scraped, name, "sum")
    }
    assert_operator application + queue - first, :>=, 0.2
  end

  def test_a_failure_is_in_them_too
    serve { sleep(0.06) && raise("oops") }
    assert_match(/ 500 /, get)
    eventually { @server.stats[:requests] == 1 }
    assert_operator value(scraped, "application", "sum"), :>=, 0.06
    assert_operator value(scraped, "first_byte", "sum"), :>=, 0.06
  end
end
