# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/subprocess"

# Which rack-timeout ends: the fiber of the request, or, left as it is, the thread.
class RackTimeoutTest < Minitest::Test
  def test_it_ends_the_fiber_until_it_is_switched_off
    result = Subprocess.ruby(<<~RUBY)
      require "rack/timeout/base"
      told = Thread::Queue.new
      timeout = Rack::Timeout::Scheduler::Timeout.new { |who| told.push(who.class) }
      ended = -> { NB.run { timeout.timeout(0.01) { told.pop } } }
      p ended.call
      NB::Drivers.off("rack-timeout")
      p ended.call
    RUBY
    assert_equal "NB::Drivers::RackTimeout::Request\nThread\n", result.out, result.err
  end
end
