# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "socket"

# What a fiber waits for, in words, is found out without harm to what it waits for.
class SubjectTest < Minitest::Test
  Struck = Class.new(StandardError)

  # An exception from outside, as Timeout sends it, right after the fd has a second IO.
  def strike(socket)
    struck = false
    strike = TracePoint.new(:c_return) do |point|
      next unless point.method_id == :for_fd && !struck

      struck = true
      Thread.current.raise(Struck)
    end
    strike.enable { NB::Subject.of({kind: :io, fds: [[socket.fileno, 1]]}) }
  rescue Struck
    struck
  end

  def test_an_exception_closes_no_connection
    pairs = Array.new(50) { UNIXSocket.pair }
    assert_equal [true] * 50, (pairs.map { |pair| Thread.new { strike(pair.first) }.value })
    3.times { GC.start }
    pairs.each do |one, other|
      one.write("alive")
      assert_equal "alive", other.readpartial(5)
    end
  ensure
    pairs.flatten.each(&:close)
  end
end
