# frozen_string_literal: true

require_relative "helper"
require_relative "outside"
require "digest"
require "net/http"
require "tempfile"
require "tmpdir"

# Clients that people use: curl, ab, wrk, h2load, Net::HTTP.
class ServerClientsTest < Minitest::Test
  include ServerTest
  include Outside

  DIGEST = lambda do |env|
    input = env["rack.input"]
    fields = env.values_at("REQUEST_METHOD", "SERVER_PROTOCOL", "HTTP_HOST", "PATH_INFO")
    body = "#{fields.join(" ")} #{Digest::SHA256.hexdigest(input.read)}\n"
    [200, {"content-type" => "text/plain", "content-length" => body.bytesize.to_s}, [body]]
  end
  BYTES = Random.new(1).bytes(3 << 20).freeze
  SHA = Digest::SHA256.hexdigest(BYTES).freeze
  # After a second curl would send its body all the same.
  EXPECT = ["-H", "Expect: 100-continue", "--expect100-timeout", 60].freeze
  EMPTY = Digest::SHA256.hexdigest("").freeze

  def url(path = "/") = "http://127.0.0.1:#{@server.port}#{path}"

  def curl(*arguments, **options)
    run_program("curl", "-sS", "-m", 60, *arguments, limit: 90, **options)
  end

  def upload
    Tempfile.create("upload") do |file|
      file.binmode
      file.write(BYTES)
      file.flush
      yield file.path
    end
  end

  # --- curl -------------------------------------------------------------------------------------

  def test_curl_keeps_its_connection
    serve(DIGEST)
    answer = curl(*Array.new(5) { |i| url("/#{i}") })
    assert_equal %w[/0 /1 /2 /3 /4], answer.scan(/ (\/\d) /).flatten
    assert_equal 1, @server.stats[:accepted]
  end

  def test_curl_head_and_http_1_0
    serve(DIGEST)
    assert_match(/\AHTTP\/1.1 200 OK\r\n.*content-length: \d+\r\n/m, curl("-I", url))
    assert_match(/\AGET HTTP\/1.0 127.0.0.1:\d+ \/x #{EMPTY}\n\z/, curl("-0", url("/x")))
  end

  def test_curl_uploads_with_expect
    serve(DIGEST)
    upload do |path|
      trace = curl("-T", path, *EXPECT, "-D", "-", url)
      assert_match(/\AHTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 OK.*PUT .* #{SHA}\n\z/m, trace)
      assert_includes curl("--data-binary", "@#{path}", url), "POST HTTP/1.1"
    end
  end

  def test_curl_is_refused_before_it_sends
    serve(DIGEST, body_bytes: 1 << 20)
    upload do |path|
      told = curl("-T", path, *EXPECT, "-w", "%{http_code} %{size_upload}", "-o", File::NULL, url)
      assert_equal "413 0", told
    end
  end

  def test_curl_uploads_in_chunks
    serve(DIGEST)
    assert_match(/PUT .* #{SHA}\n\z/, curl("-T-", url, input: BYTES))
    answer = curl("-H", "Transfer-Encoding: chunked", "--data-binary", "@-", url, input: BYTES)
    assert_match(/POST .* #{SHA}\n\z/, answer)
  end

  def test_curl_over_a_unix_socket
    Dir.mktmpdir do |folder|
      serve(DIGEST, bind: "unix://#{folder}/app.sock")
      answer = curl("--unix-socket", "#{folder}/app.sock", "http://name/x")
      assert_equal "GET HTTP/1.1 name /x #{EMPTY}\n", answer
    end
  end

  def test_curl_asks_for_http_2_and_gets_1_1
    serve(DIGEST)
    assert_match(/\AGET HTTP\/1.1 /, curl("--http2", url))
  end

  def test_curl_takes_it_for_a_proxy
    serve(DIGEST)
    assert_equal "GET HTTP/1.1 name /x #{EMPTY}\n", curl("-x", url, "http://name/x")
  end

  def test_curl_in_parallel_with_a_slow_application
    inside = 0
    serve do |env|
      inside += 1
      sleep 0.001 until inside >= 20 # nobody is answered before others have come
      DIGEST.call(env)
    end
    answer = curl("-Z", "--parallel-max", 50, "--parallel-immediate", url("/[1-50]"))
    assert_equal 50, answer.lines.uniq.size
  end

  def test_curl_downloads_what_is_sent_by_sendfile_chunks_and_array
    upload do |path|
      bodies = {"/file" => File.open(path, "rb"), "/array" => [BYTES],
                "/chunks" => BYTES.scan(/.{1,100000}/mn).each}
      serve { |env| [200, {}, bodies.fetch(env["PATH_INFO"])] }
      bodies.each_key { |name| assert_equal SHA, Digest::SHA256.hexdigest(curl(url(name))), name }
    end
  end

  # --- load -------------------------------------------------------------------------------------

  def test_ab
    serve(HELLO)
    [[], ["-k"]].each do |flags|
      told = run_program("ab", "-q", "-n", 2000, "-c", 50, *flags, url)
      assert_match(/Complete requests: +2000\nFailed requests: +0\n/, told)
      refute_match(/Non-2xx|Write errors/, told)
      assert_match(/Keep-Alive requests: +2000\n/, told) if flags.any?
    end
  end

  def test_ab_posts
    serve { |env| [200, {}, [env["rack.input"].read.bytesize.to_s]] }
    upload do |path|
      told = run_program("ab", "-q", "-k", "-n", 50, "-c", 10, "-p", path, "-T", "x/y", url)
      assert_match(/Complete requests: +50\nFailed requests: +0\n/, told)
      assert_match(/HTML transferred: +#{50 * BYTES.bytesize.to_s.size} bytes/, told)
    end
  end

  def test_wrk
    serve(HELLO)
    told = run_program("wrk", "-t1", "-c50", "-d1s", "--timeout", "60s", url)
    refute_match(/Socket errors|Non-2xx/, told)
    assert_operator told[/(\d+) requests in/, 1].to_i, :>, 50
  end

  def test_wrk_pipelines
    serve(HELLO)
    Tempfile.create(["pipeline", ".lua"]) do |script|
      script.write("function init() local r = {} " \
                   "for i = 1, 16 do r[i] = wrk.format('GET', '/' .. i) end " \
                   "all = table.concat(r) end function request() return all end")
      script.flush
      told = run_program("wrk", "-t1", "-c20", "-d1s", "--timeout", "60s", "-s", script.path, url)
      refute_match(/Socket errors|Non-2xx/, told)
      assert_operator told[/(\d+) requests in/, 1].to_i, :>, 50
    end
  end

  def test_h2load
    serve(HELLO)
    told = run_program("h2load", "--h1", "-n", 2000, "-c", 50, url)
    assert_match(/2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout/, told)
  end

  # --- Net::HTTP --------------------------------------------------------------------------------

  def test_net_http
    serve(DIGEST)
    Net::HTTP.start("127.0.0.1", @server.port) do |http|
      20.times { |i| assert_includes http.get("/#{i}").body, " /#{i} #{EMPTY}" }
      request = Net::HTTP::Post.new("/", "Transfer-Encoding" => "chunked")
      request.body_stream = StringIO.new(BYTES)
      assert_includes http.request(request).body, SHA
      fields = {"Expect" => "100-continue", "Content-Length" => BYTES.bytesize.to_s}
      request = Net::HTTP::Put.new("/", fields)
      request.body_stream = StringIO.new(BYTES)
      http.continue_timeout = 5
      assert_includes http.request(request).body, SHA
      assert_nil http.head("/").body
    end
    assert_equal 1, @server.stats[:accepted]
  end
end
