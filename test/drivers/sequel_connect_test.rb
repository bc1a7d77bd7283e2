# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "pg"
require "sequel"
require "trilogy"

# What interrupts Sequel while it connects, to a server that says nothing, comes out as itself.
class SequelConnectTest < Minitest::Test
  %w[postgres trilogy].each do |adapter|
    define_method("test_#{adapter}") do
      silent = TCPServer.new("127.0.0.1", 0)
      url = "#{adapter}://127.0.0.1:#{silent.local_address.ip_port}/none"
      late = Class.new(StandardError)
      NB.run do
        db = Sequel.connect(url, test: false, keep_reference: false)
        assert_raises(Timeout::Error) { NB.timeout(0.05) { db.get(1) } }
        assert_raises(late) { NB.timeout(0.05, late) { db.get(1) } }
        assert_equal NB::Cancelled, cancelled_in { db.get(1) }
        assert_equal 0, db.pool.size
      end
    ensure
      silent.close
    end
  end

  private

  # @return [Class] of what comes out of the block
  def cancelled_in
    seen = nil
    task = NB.async do
      yield
    rescue Exception => error # rubocop:disable Lint/RescueException -- raised again
      seen = error.class
      raise
    end
    sleep 0.05
    task.cancel.wait
    seen
  end
end
