# frozen_string_literal: true

require_relative "crowd"
require "async" # before what needs it
require "async/http/endpoint"
require "async/websocket/adapters/rack"
require "async/websocket/client"

# async-websocket's Rack adapter, which answers with `rack.protocol`, and its client.
class WebSocketTest < Minitest::Test
  include Crowd

  # Says whatever it hears, once all clients are there.
  def echo
    lambda do |env|
      @meeting.open
      Async::WebSocket::Adapters::Rack.open(env) do |connection|
        while (message = connection.read)
          connection.write(@meeting.wait(message.to_str))
          connection.flush
        end
      end || [400, {}, ["no WebSocket"]]
    end
  end

  def test_clients_beside_each_other
    serve(echo, fibers: REQUESTS)
    tokens = Array.new(REQUESTS) { |i| "t#{i}" }
    heard = talk { |task| tokens.map { |token| task.async { say(token) } }.map(&:wait) }
    said = tokens.map { |token| [token, "again #{token}"] }
    assert_equal said, heard, -> { @log.string[0, 2000] }
    assert_match(/\r\n\r\nno WebSocket\z/, get, "the server goes on")
  end

  def test_the_server_ends_the_connection
    serve do |env|
      Async::WebSocket::Adapters::Rack.open(env) do |connection|
        connection.write("bye")
        connection.flush
      end
    end
    heard = talk { Async::WebSocket::Client.connect(endpoint) { |own| [own.read.to_str, own.read] } }
    assert_equal ["bye", nil], heard
  end

  private

  # In a thread with a reactor of async's own.
  def talk(&block) = Thread.new { Sync { |task| task.with_timeout(60) { block.call(task) } } }.value

  def say(token)
    Async::WebSocket::Client.connect(endpoint) do |connection|
      [token, "again #{token}"].map do |text|
        connection.write(text)
        connection.flush
        connection.read.to_str
      end
    end
  end

  def endpoint
    Async::HTTP::Endpoint.parse("http://127.0.0.1:#{@server.port}/",
                                alpn_protocols: Async::HTTP::Protocol::HTTP11.names)
  end
end
