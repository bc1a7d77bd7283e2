# frozen_string_literal: true

require "neverblock"
require_relative "helper"

# Fifty requests that are all inside an application at the same time, each with a token of its own.
# None may come out with that of another, and the loop must go on beside them.
module Crowd
  include ServerTest

  REQUESTS = 50

  # Where all requests wait for each other, and for a ticker beside them.
  class Meeting
    # @param size [Integer] how many
    def initialize(size)
      @size = size
      @inside = Hash.new(0)
      @ticks = 0
    end

    # Ticks from now on; called by each request as it comes.
    def open = @ticker ||= NB.async(background: true) { sleep(0.001) while @ticks += 1 }

    # Returns what it was given, after all have come to this place and the ticker has ticked on.
    def wait(token, place = nil)
      @inside[place] += 1
      sleep(0.001) until @inside[place] >= @size
      seen = @ticks
      sleep(0.001) until @ticks > seen + 3
      token
    end
  end

  def setup = @meeting = Meeting.new(REQUESTS)

  private

  # Overlapping requests; each answer consists of its token only.
  def crowd(app, path: "/?token=%s")
    serve(->(env) { @meeting.open && app.call(env) }, fibers: REQUESTS)
    tokens = Array.new(REQUESTS) { |i| "t#{i}" }
    sockets = tokens.map do |token|
      connect.tap { |socket| socket.write(request(format(path, token))) }
    end
    answers = sockets.map { |socket| read_response(socket).body.split.uniq.join(" ") }
    assert_equal tokens, answers, -> { @log.string[0, 2000] }
  end

  def request(path) = "GET #{path} HTTP/1.1\r\n#{ServerTest::HOST}\r\n"

  # An application of the block, which takes a token and returns several.
  def rack
    ->(env) { [200, TEXT, [yield(env["QUERY_STRING"].delete_prefix("token=")).join(" ")]] }
  end

  def skip_without(feature)
    require feature
  rescue LoadError
    skip "#{feature} is not among the gems of Ruby #{RUBY_VERSION}"
  end
end
