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

  # It sends the signal, and raises in the request before the signal has arrived.
  def test_its_signal_is_not_lost_where_the_request_ends_the_block
    result = Subprocess.ruby(<<~RUBY)
      require "rack"
      require "rack/timeout/base"
      timeout = Rack::Timeout.new(->(_) { sleep }, service_timeout: 0.01, term_on_timeout: 1)
      begin
        NB.run do
          timeout.call({})
        rescue Rack::Timeout::RequestTimeoutError => error
          p error.class
        end
      rescue SignalException => error
        p error
      end
    RUBY
    lines = "Rack::Timeout::RequestTimeoutError\n#<SignalException: SIGTERM>\n"
    assert_equal lines, result.out, result.err
  end
end
