# frozen_string_literal: true

require_relative "helper"
require_relative "outside"
require "digest"
require "json"
require "tmpdir"

# A browser: headless Chromium takes an event stream, reconnects to it, downloads what is streamed,
# what comes from a file and what it uploads itself, and reports what it has seen.
class ServerBrowserTest < Minitest::Test
  include ServerTest
  include Outside

  PAGE = <<~HTML
    <!doctype html><title>neverblock</title><script type="module">
      const hex = buffer => Array.from(new Uint8Array(buffer), b => b.toString(16).padStart(2, "0")).join("")
      const sha = async bytes => hex(await crypto.subtle.digest("SHA-256", bytes))
      const report = {}
      const events = async () => {
        const seen = []
        await new Promise(done => {
          const source = new EventSource("/events")
          source.onmessage = event => {
            seen.push(event.data)
            if (seen.length == 6) { source.close(); done() }
          }
        })
        return seen
      }
      const stream = async path => {
        const reader = (await fetch(path)).body.getReader(), parts = []
        for (;;) {
          const {done, value} = await reader.read()
          if (done) break
          if (parts.length == 0) await fetch("/seen")
          parts.push(value)
        }
        const bytes = new Uint8Array(await new Blob(parts).arrayBuffer())
        return {sha: await sha(bytes)}
      }
      report.events = await events()
      report.stream = await stream("/stream")
      report.file = await stream("/file")
      report.small = await Promise.all(Array.from({length: 60}, async (_, i) => (await fetch("/small/" + i)).text()))
      const upload = new Uint8Array(2 << 20).map((_, i) => i * 7)
      report.upload = [await sha(upload), await (await fetch("/upload", {method: "POST", body: upload})).text()]
      const abort = new AbortController()
      const endless = await fetch("/endless", {signal: abort.signal})
      await endless.body.getReader().read()
      abort.abort()
      await fetch("/report", {method: "POST", body: JSON.stringify(report)})
    </script>
  HTML
  FLAGS = %w[--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
             --disable-background-networking --disable-component-update --disable-dev-shm-usage
             --remote-debugging-port=0].freeze
  BYTES = Random.new(3).bytes(5 << 20).freeze

  def teardown
    if @browser
      Process.kill(:KILL, -@browser)
      Process.wait(@browser)
    end
    super
  end

  # Three events, then the end: the browser comes back and says which was the last.
  EVENTS = lambda do |env|
    last = env["HTTP_LAST_EVENT_ID"].to_i
    body = lambda do |stream|
      (last + 1..last + 3).each { |id| stream.write("id: #{id}\nretry: 10\ndata: event #{id}\n\n") }
      stream.close
    end
    [200, {"content-type" => "text/event-stream", "cache-control" => "no-store"}, body]
  end

  def app(reports, gone)
    @seen = Thread::Queue.new
    parts = BYTES.scan(/.{1,65536}/mn)
    slowly = lambda do |stream|
      stream.write(parts.first)
      @streamed = @seen.pop # the rest comes when the first part was seen
      parts.drop(1).each { |part| stream.write(part) }
      stream.close
    end
    endless = lambda do |stream|
      loop { stream.write("x" * 1000) && sleep(0.005) }
    rescue SystemCallError, IOError
      gone << true
    end
    lambda do |env|
      case env["PATH_INFO"]
      when "/" then [200, {"content-type" => "text/html; charset=utf-8"}, [PAGE]]
      when "/events" then EVENTS.call(env)
      when "/stream" then [200, {"content-type" => "application/octet-stream"}, slowly]
      when "/file" then [200, {}, File.open(@file, "rb")]
      when "/seen" then @seen << true and [204, {}, []]
      when "/endless" then [200, {}, endless]
      when "/upload" then [200, TEXT, [Digest::SHA256.hexdigest(env["rack.input"].read)]]
      when "/report" then reports << env["rack.input"].read and [204, {}, []]
      else [200, TEXT, [env["PATH_INFO"]]]
      end
    end
  end

  def test_chromium
    Dir.mktmpdir("nb-chromium") do |folder|
      File.binwrite(@file = "#{folder}/file", BYTES)
      serve(app(reports = Thread::Queue.new, gone = Thread::Queue.new))
      @browser = spawn(program("chromium"), *FLAGS, "--user-data-dir=#{folder}/profile",
        "http://127.0.0.1:#{@server.port}/", out: File::NULL, err: "#{folder}/log", pgroup: true)
      report = Timeout.timeout(120) { JSON.parse(reports.pop) }
      check(report)
      assert Timeout.timeout(60) { gone.pop }, "an aborted download ends its body"
      assert_equal "", @log.string
      Process.kill(:KILL, -@browser)
      Process.wait(@browser)
      @browser = nil
    rescue Timeout::Error
      flunk "no report: #{File.read("#{folder}/log")[-2000..]}"
    end
  end

  def check(report)
    sha = Digest::SHA256.hexdigest(BYTES)
    assert_equal (1..6).map { |i| "event #{i}" }, report["events"]
    assert_equal [sha, sha], [report["stream"]["sha"], report["file"]["sha"]]
    assert @streamed
    assert_equal Array.new(60) { |i| "/small/#{i}" }, report["small"]
    assert_equal *report["upload"]
  end
end
