# frozen_string_literal: true

# Asks the application so many questions at once, as the page does, watches the answers come as a
# browser would, and says how fast they came, and how late.
#
# Run: ruby examples/llm/crowd.rb http://127.0.0.1:9292 1000 [PID]
#
# With the application's process id it also says what that process has needed (Linux).

require "json"
require "net/http"
require "websocket/driver"

# A browser with the page open.
class Crowd
  QUESTION = Array.new(50) { |number| "word#{number}" }.join(" ")
  IDEAL = 50 * 0.02 # seconds
  # Seconds for all answers.
  PATIENCE = 300

  APPENDED = %r{target="(.+?)"><template>(.*)</template>}m

  # What the driver of WebSockets writes to.
  Wire = Struct.new(:url, :socket) do
    def write(bytes) = socket.write(bytes)
  end

  # @return [Hash{String => Array}] for each line, the text so far and when its words came
  attr_reader :lines

  def initialize(url, count)
    @url = URI(url)
    @count = count
    @lines = {}
  end

  def run
    page = open_page
    subscribe(page[/signed-stream-name="([^"]+)"/, 1])
    token = page[/name="authenticity_token" value="([^"]+)"/, 1]
    @begin = clock
    ask = Net::HTTP::Post.new("/ask", "Cookie" => @cookie)
    ask.form_data = { authenticity_token: token, question: QUESTION, count: @count }
    answer = Thread.new { http { |one| one.request(ask) } }
    listen { done? }
    raise "/ask: #{answer.value.code}" unless answer.value.is_a?(Net::HTTPNoContent)

    self
  end

  # @return [Array<String>] the whole text of each answer
  def texts = @lines.values.map(&:first)

  def to_s
    took = @lines.values.map { |_, times| times.last - @begin }.sort
    format("%d answers of 50 words in %.1f s: %.0f words/s; half were complete within %.2f s, 99 " \
           "of 100 within %.2f s (%.2f s at best)", @count, took.last, @count * 50 / took.last,
           took[took.size / 2], took[(took.size * 0.99).floor], IDEAL)
  end

  # @param pid [Integer] of the application
  # @return [String] its most memory so far, and its CPU time
  def self.usage(pid)
    peak = File.read("/proc/#{pid}/status")[/VmHWM:\s+(\d+)/, 1].to_i / 1024
    ticks = File.read("/proc/#{pid}/stat").split(") ").last.split.values_at(11, 12).sum(&:to_i)
    format("the application: %d MB at most, %.1f s of CPU time", peak, ticks / 100.0)
  end

  private

  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  def http(&block) = Net::HTTP.start(@url.host, @url.port, read_timeout: PATIENCE, &block)

  def open_page
    answer = http { |one| one.get("/") }
    @cookie = answer["set-cookie"][/\A[^;]+/]
    answer.body
  end

  def subscribe(stream)
    @socket = TCPSocket.new(@url.host, @url.port)
    @driver = WebSocket::Driver.client(Wire.new("ws://#{@url.host}:#{@url.port}/cable", @socket))
    @driver.set_header("Cookie", @cookie)
    @driver.on(:message) { |message| hear(JSON.parse(message.data)) }
    @driver.start
    channel = { channel: "Turbo::StreamsChannel", signed_stream_name: stream }
    listen { @welcome }
    @driver.text({ command: "subscribe", identifier: channel.to_json }.to_json)
    listen { @subscribed }
  end

  # Until the block says so.
  def listen
    deadline = clock + PATIENCE
    until yield
      raise "not in #{PATIENCE} s: #{texts.tally}" if clock > deadline

      @driver.parse(@socket.readpartial(65_536)) if @socket.wait_readable(1)
    end
  end

  def hear(message)
    @welcome = true if message["type"] == "welcome"
    @subscribed = true if message["type"] == "confirm_subscription"
    target, html = message["message"].to_s.match(APPENDED)&.captures
    return unless target
    return @lines[html[/id="(.+?)"/, 1]] = [+"", []] if target == "answers"

    text, times = @lines.fetch(target)
    text << html
    times << clock
  end

  def done? = @lines.size == @count && texts.all?(QUESTION)
end

if $PROGRAM_NAME == __FILE__
  puts Crowd.new(ARGV.fetch(0, "http://127.0.0.1:9292"), Integer(ARGV.fetch(1, "1"))).run
  puts Crowd.usage(ARGV[2]) if ARGV[2]
end
