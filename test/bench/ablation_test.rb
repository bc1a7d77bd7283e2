# frozen_string_literal: true

require_relative "helper"

# Each loop and form of I9 makes its calls, and sees a wrong answer.
class BenchAblationTest < Minitest::Test
  include BenchHelper

  FEW = { jobs: 2, calls: 3 }.freeze

  Bench.tables["i9"].groups.flatten.each do |params|
    name = params.values.join("_")

    define_method("test_#{name}_makes_all_calls") do
      sample = answered_by(:c_http) { |port| cell("i9", { **params, **FEW }, port: port) }

      assert_nil sample["failure"]
      assert_equal 0, sample["errors"], sample["first_error"]
      assert_operator sample["operations"], :>=, 6
      assert_equal 0, sample["operations"] % 6
    end
  end

  %w[nb em].product(%w[fiber callback fiber_pool callback_pool]).each do |runtime, way|
    define_method("test_#{runtime}_#{way}_counts_wrong_answers") do
      params = { runtime: runtime, way: way, **FEW }
      sample = with_a_liar { |port| cell("i9", params, port: port) }

      assert_operator sample["errors"], :>=, 12, "two rounds of six" # the first is not timed
      assert_match(/an answer: "xx/, sample["first_error"])
    end
  end

  def answered_by(kind)
    server = Bench::Server.start(kind, ruby: nil)
    yield server.port
  ensure
    server&.stop
  end

  # Answers of the right length.
  def with_a_liar
    server = TCPServer.new("127.0.0.1", 0)
    thread = Thread.new { loop { lie_to(server.accept) } }
    yield server.local_address.ip_port
  ensure
    thread&.kill&.join
    server&.close
  end

  def lie_to(socket)
    Thread.new do
      socket.write("x" * 76) while socket.gets("\r\n\r\n")
    ensure
      socket.close
    end
  end
end
