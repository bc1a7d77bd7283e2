# frozen_string_literal: true

require "io/nonblock"
require "json"
require "timeout"
require "tmpdir"
require "fileutils"

# Headless Chromium, driven through a pipe by its DevTools protocol: messages of JSON, a NUL after
# each.
class Browser
  FLAGS = %w[--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
             --disable-background-networking --disable-component-update --disable-dev-shm-usage
             --hide-scrollbars --remote-debugging-pipe].freeze

  # Without the library of ASan that `rake asan` loads everywhere: Chromium hangs with it.
  BARE = {"LD_PRELOAD" => nil}.freeze

  # What the page wrote to its console as errors, and what its security policy refused.
  attr_reader :complaints

  # @param program [String] where Chromium is
  def initialize(program, within: 60)
    @within = within
    @folder = Dir.mktmpdir("nb-browser")
    @complaints = []
    @last = 0
    their_in, @out = IO.pipe
    @in, their_out = IO.pipe
    [their_in, their_out].each { |io| io.nonblock = false } # what Chromium expects
    @pid = spawn(BARE, program, *FLAGS, "--user-data-dir=#{@folder}", "about:blank", 3 => their_in,
      4 => their_out, out: File::NULL, err: "#{@folder}/log", pgroup: true)
    [their_in, their_out].each(&:close)
    attach
  rescue StandardError
    close if @pid
    raise
  end

  # @param width [Integer] of the window
  # @param scheme [String] light or dark
  def look(width:, height: 900, scheme: "light")
    call("Emulation.setDeviceMetricsOverride", width: width, height: height, deviceScaleFactor: 1,
      mobile: false)
    call("Emulation.setEmulatedMedia",
      features: [{name: "prefers-color-scheme", value: scheme}])
  end

  def open(url) = call("Page.navigate", url: url)

  # @return what the expression gives, through JSON
  def evaluate(script)
    answer = call("Runtime.evaluate", expression: script, returnByValue: true, awaitPromise: true)
    error = answer["exceptionDetails"]
    raise "#{script}: #{error.dig("exception", "description")}" if error

    answer.dig("result", "value")
  end

  # Presses a key as a keyboard does.
  def press(key, text = nil)
    number = {"Enter" => 13, "Tab" => 9}.fetch(key)
    {"keyDown" => text, "keyUp" => nil}.each do |type, typed|
      call("Input.dispatchKeyEvent", type: type, key: key, code: key, text: typed.to_s,
        windowsVirtualKeyCode: number)
    end
  end

  # @return [String] PNG of the whole page
  def picture
    size = evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    clip = {x: 0, y: 0, width: size[0], height: size[1], scale: 1}
    call("Page.captureScreenshot", captureBeyondViewport: true, clip: clip)["data"].unpack1("m")
  end

  def close
    Process.kill(:KILL, -@pid)
    Process.wait(@pid)
    [@in, @out].each(&:close)
    FileUtils.rm_rf(@folder)
  end

  private

  def attach
    target = call("Target.getTargets")["targetInfos"].find { |one| one["url"] == "about:blank" }
    attached = call("Target.attachToTarget", targetId: target["targetId"], flatten: true)
    @session = attached["sessionId"]
    %w[Page Runtime Log].each { |domain| call("#{domain}.enable") }
  end

  def call(method, **params)
    id = @last += 1
    message = {id: id, method: method, params: params, sessionId: @session}.compact
    @out.write(JSON.generate(message), "\0")
    Timeout.timeout(@within) do
      loop do
        message = JSON.parse(@in.gets("\0").chomp("\0"))
        note(message)
        next unless message["id"] == id
        raise "#{method}: #{message["error"]}" if message["error"]

        return message["result"]
      end
    end
  end

  def note(message)
    case message["method"]
    when "Runtime.exceptionThrown"
      @complaints << message.dig("params", "exceptionDetails", "exception", "description")
    when "Log.entryAdded"
      entry = message.dig("params", "entry")
      @complaints << "#{entry["text"]} #{entry["url"]}" if entry["level"] == "error"
    end
  end
end
