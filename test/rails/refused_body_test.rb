# frozen_string_literal: true

require "rails/helper"
require "timeout"

# A body that the server refuses while Rails reads it: the client gets the reason as its status, and
# nobody is told of an error of the application.
class RefusedBodyTest < Minitest::Test
  RailsApp.load("neverblock_sqlite3")
  # As in production: the detailed pages report nothing.
  Rails.application.env_config["action_dispatch.show_detailed_exceptions"] = false

  KINDS = { "json" => ["application/json", '{"text": "'],
            "form" => ["application/x-www-form-urlencoded", "password="],
            "multipart" => ["multipart/form-data; boundary=b",
                            "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n"],
            "raw" => ["application/octet-stream", ""] }.freeze
  ENDS = { "json" => '"}', "multipart" => "\r\n--b--\r\n" }.freeze
  OPTIONS = { body_streaming: true, body_memory_bytes: 1, body_bytes: 5000, body_timeout: 0.3,
              drain_timeout: 5 }.freeze

  # Keeps what is reported.
  class Reports
    attr_reader :all

    def initialize = @all = Thread::Queue.new
    def report(error, **) = @all << error
  end

  def setup
    @reports = Reports.new
    Rails.error.subscribe(@reports)
  end

  def teardown = Rails.error.unsubscribe(@reports)

  KINDS.each_key do |kind|
    define_method("test_too_large_as_#{kind}") do
      assert_equal 413, ask(kind, "1389\r\n#{"x" * 0x1389}\r\n")
    end

    define_method("test_too_slow_as_#{kind}") { assert_equal 408, ask(kind, "") }
    define_method("test_malformed_as_#{kind}") { assert_equal 400, ask(kind, "x\r\n") }

    define_method("test_cut_off_as_#{kind}") do
      assert_equal 400, ask(kind, "5\r\nab", shut: true)
    end

    define_method("test_as_it_should_be_as_#{kind}") do
      assert_equal 200, ask(kind, "0\r\n\r\n", close: ENDS.fetch(kind, ""))
    end
  end

  # What the application itself raises is its own error still.
  def test_an_error_of_the_application_is_reported
    assert_equal 500, ask("raw", "0\r\n\r\n", query: "?raise=1", reports: ["of the application"])
  end

  private

  # @param rest [String] chunks after the first
  # @return [Integer] the status
  def ask(kind, rest, close: "", shut: false, query: "", reports: []) # rubocop:disable Metrics
    type, text = KINDS.fetch(kind)
    status = RailsApp.serve(**OPTIONS) do |port|
      Socket.tcp("127.0.0.1", port) do |socket|
        socket.write("POST /received#{query} HTTP/1.1\r\nHost: x\r\nContent-Type: #{type}\r\n" \
                     "Transfer-Encoding: chunked\r\n\r\n#{chunk(text + close)}#{rest}")
        socket.close_write if shut
        break Integer(Timeout.timeout(60) { socket.gets }[/ (\d+) /, 1])
      end
    end
    assert_equal reports, Array.new(@reports.all.size) { @reports.all.pop.message }
    status
  end

  def chunk(text) = text.empty? ? "" : "#{text.bytesize.to_s(16)}\r\n#{text}\r\n"
end
