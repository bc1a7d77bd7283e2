# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require "digest"
require "fileutils"
require "json"
require "net/http"
require "tmpdir"
require_relative "outside"
require_relative "../support/ports"
require_relative "../support/patience"
require "neverblock/server/control"

# nginx and HAProxy in front of two `nb serve`: connections kept, bodies both ways, drained.
class ServerProxiesTest < Minitest::Test
  include Outside
  include Patience

  NB_PROGRAM = File.expand_path("../../exe/nb", __dir__)
  RACKUP = <<~'RUBY'
    require "digest"
    EVENTS = lambda do |stream|
      stream.write("data: first\n\n")
      2000.times { File.exist?("seen") ? break : sleep(0.01) }
      stream.write("data: #{File.exist?("seen") ? "after it was seen" : "too late"}\n\n")
      stream.close
    end
    run lambda { |env|
      case env["PATH_INFO"]
      when "/large" then [200, {}, [Random.new(1).bytes(3 << 20)]]
      when "/chunks" then [200, {}, Array.new(300) { |i| i.to_s * 1000 }.each]
      when "/events" then [200, {"content-type" => "text/event-stream"}, EVENTS]
      when "/slow" then sleep(0.05) && [200, {}, ["#{Process.pid}"]]
      when "/upload" then [200, {}, [Digest::SHA256.hexdigest(env["rack.input"].read)]]
      else [200, {"content-type" => "text/plain"}, ["#{Process.pid}"]]
      end
    }
  RUBY
  LARGE = Digest::SHA256.hexdigest(Random.new(1).bytes(3 << 20))
  CHUNKS = Digest::SHA256.hexdigest(Array.new(300) { |i| i.to_s * 1000 }.join)
  Backend = Struct.new(:pid, :port, :control)

  def setup
    @folder = Dir.mktmpdir("nb-proxies")
    @pids = []
    File.write("#{@folder}/config.ru", RACKUP)
  end

  def teardown
    @pids.each do |pid|
      Process.kill(:KILL, -pid)
      Process.wait(pid)
    rescue Errno::ESRCH, Errno::ECHILD
      nil # it has ended already
    end
    FileUtils.rm_rf(@folder)
  end

  def free_port = Ports.free

  def start(name, *command)
    @pids << spawn(*command, chdir: @folder, out: "#{@folder}/#{name}.log", err: %i[child out],
      pgroup: true)
    @pids.last
  end

  def backend(name)
    port = free_port
    control = "unix://#{@folder}/#{name}.sock"
    pid = start(name, RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, NB_PROGRAM, "serve",
      "-b", "tcp://127.0.0.1:#{port}", "--control", control)
    eventually { ready?(control) }
    Backend.new(pid, port, control)
  end

  # It listens before it has loaded the application, and HAProxy's first check may come before that.
  def ready?(control)
    JSON.parse(NB::Server::Control.ask(control, "/ready"))["ready"]
  rescue SystemCallError, EOFError
    false
  end

  def answering(port)
    eventually do
      TCPSocket.open("127.0.0.1", port, &:close) || true
    rescue SystemCallError
      false
    end
  end

  def so_far = Dir["#{@folder}/*.log"].map { |log| "#{log}: #{File.read(log)[-1000..]}" }.join("\n")
  def stats(backend) = JSON.parse(NB::Server::Control.ask(backend.control))["workers"].first

  def nginx(backends)
    @port = free_port
    File.write("#{@folder}/nginx.conf", <<~CONF)
      daemon off; pid #{@folder}/nginx.pid; error_log #{@folder}/nginx-error.log; worker_processes 1;
      #{Process.uid.zero? ? "user root;" : ""}
      events { worker_connections 512; }
      http {
        access_log off; client_max_body_size 0;
        #{%w[body proxy fastcgi uwsgi scgi].map { |kind| "#{kind == "body" ? "client_body" : kind}_temp_path #{@folder}/t-#{kind};" }.join(" ")}
        upstream app {
          #{backends.map { |backend| "server 127.0.0.1:#{backend.port} max_fails=0;" }.join(" ")}
          keepalive 16;
        }
        server {
          listen 127.0.0.1:#{@port};
          proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
          location / { proxy_pass http://app; }
          location /unbuffered/ { proxy_pass http://app/; proxy_buffering off; proxy_request_buffering off; }
        }
      }
    CONF
    start("nginx", program("nginx"), "-p", @folder, "-e", "#{@folder}/nginx-error.log", "-c", "#{@folder}/nginx.conf")
    answering(@port)
  end

  # @param fall [Integer] checks in a row that fail before a server gets no more requests
  def haproxy(backends, fall: 1)
    @port = free_port
    servers = backends.each_with_index.map do |backend, i|
      "server s#{i} 127.0.0.1:#{backend.port} check inter 100 fall #{fall} rise 1 addr unix@#{backend.control.delete_prefix("unix://")}"
    end
    File.write("#{@folder}/haproxy.cfg", <<~CONF)
      global
        stats socket #{@folder}/haproxy.sock
      defaults
        mode http
        timeout connect 20s
        timeout client 60s
        timeout server 60s
        timeout check 20s
        option redispatch
        retries 3
        retry-on all-retryable-errors
      frontend front
        bind 127.0.0.1:#{@port}
        default_backend app
      backend app
        http-reuse always
        option httpchk GET /ready
        #{servers.join("\n  ")}
    CONF
    start("haproxy", program("haproxy"), "-db", "-f", "#{@folder}/haproxy.cfg")
    answering(@port)
  end

  # Four keep-alive clients ask all the time; returns every answer that is no 200.
  def under_load(path = "/slow")
    wrong = Thread::Queue.new
    done = Thread::Queue.new
    over = false
    clients = Array.new(4) do
      Thread.new do
        Net::HTTP.start("127.0.0.1", @port) do |http|
          http.max_retries = 0
          until over
            answer = http.get(path)
            answer.code == "200" ? done << answer.body : wrong << "#{answer.code} #{answer.body}"
          end
        end
      rescue SystemCallError, IOError => error
        wrong << error.inspect
      end
    end
    yield done
    over = true
    clients.each(&:join)
    assert_operator done.size, :>, 20
    Array.new(wrong.size) { wrong.pop }
  end

  def body_checks(prefix = "")
    url = "http://127.0.0.1:#{@port}#{prefix}"
    assert_equal LARGE, Digest::SHA256.hexdigest(Net::HTTP.get(URI("#{url}/large")))
    assert_equal CHUNKS, Digest::SHA256.hexdigest(Net::HTTP.get(URI("#{url}/chunks")))
    bytes = Random.new(2).bytes(20 << 20)
    wanted = Digest::SHA256.hexdigest(bytes)
    assert_equal wanted, Net::HTTP.post(URI("#{url}/upload"), bytes).body
    chunked = run_program("curl", "-sS", "-H", "Transfer-Encoding: chunked", "-H", "Expect:",
      "--data-binary", "@-", "#{url}/upload", input: bytes)
    assert_equal wanted, chunked
  end

  def first_event_comes_first(path)
    all = +""
    Net::HTTP.start("127.0.0.1", @port) do |http|
      http.request_get(path) do |answer|
        answer.read_body do |part|
          all << part
          File.write("#{@folder}/seen", "")
        end
      end
    end
    assert_equal "data: first\n\ndata: after it was seen\n\n", all
  end

  def drains(backends)
    wrong = under_load do |done|
      eventually { done.size > 10 }
      Process.kill(:TERM, backends.first.pid)
      assert_predicate Process.wait2(backends.first.pid).last, :success?
      before = done.size
      eventually { done.size > before + 10 }
    end
    assert_empty wrong
  end

  def test_nginx_keeps_connections
    one = backend("one")
    nginx([one])
    told = run_program("ab", "-q", "-k", "-n", 2000, "-c", 16, "http://127.0.0.1:#{@port}/")
    assert_match(/Complete requests: +2000\nFailed requests: +0\n/, told)
    refute_match(/Non-2xx/, told)
    assert_operator stats(one)["accepted"], :<, 40
  end

  def test_nginx_bodies
    nginx([backend("one")])
    body_checks
    body_checks("/unbuffered")
    first_event_comes_first("/unbuffered/events")
  end

  def test_nginx_drains
    backends = [backend("one"), backend("two")]
    nginx(backends)
    drains(backends)
  end

  def test_haproxy_keeps_connections_and_bodies
    one = backend("one")
    haproxy([one], fall: 10) # where others compute, a check may come late
    told = run_program("ab", "-q", "-k", "-n", 2000, "-c", 16, "http://127.0.0.1:#{@port}/")
    assert_match(/Complete requests: +2000\nFailed requests: +0\n/, told)
    refute_match(/Non-2xx/, told)
    assert_operator stats(one)["accepted"], :<, 80
    body_checks
    first_event_comes_first("/events")
  end

  def haproxy_stats
    UNIXSocket.open("#{@folder}/haproxy.sock") do |socket|
      socket.write("show stat\n")
      socket.read
    end
  end

  def test_haproxy_drains
    backends = [backend("one"), backend("two")]
    haproxy(backends)
    drains(backends)
    eventually { haproxy_stats.match?(/s0,.*DOWN.*\n.*s1,.*UP/) }
  end
end
# rubocop:enable Layout/LineLength
