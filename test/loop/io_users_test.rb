# frozen_string_literal: true

require "minitest/autorun"
require "timeout"
require "neverblock"

# Whom a fiber has to drive out of an IO that it closes.
class IOUsersTest < Minitest::Test
  def setup
    skip "Ruby #{RUBY_VERSION} needs no such care" if RUBY_VERSION < "3.2" || RUBY_VERSION >= "4"

    @reader, @writer = IO.pipe
  end

  def teardown
    @thread&.kill&.join
    [@reader, @writer].compact.each(&:close)
  end

  def test_a_thread_that_reads_may_use_any_io
    read
    assert there?(@writer)
  end

  def test_a_thread_of_ours_uses_only_its_own
    read { NB::IOUsers.only(@reader) }
    refute there?(@writer)
    assert there?(@reader)
  end

  # None of them waits for long, so they need no thread each.
  def test_a_burst_of_closes_takes_few_threads
    read
    pipes = Array.new(200) { IO.pipe }
    others = Thread.list.size # of other tests, some of which leave threads that end later
    most = NB.run do
      pipes.map { |pipe| NB.async { pipe.each(&:close) && Thread.list.size } }.map(&:value).max
    end
    assert pipes.flatten.all?(&:closed?)
    assert_operator most - others, :<, 100
  end

  def test_closes_one_after_the_other_share_a_thread
    read
    made = 0
    point = TracePoint.new(:thread_begin) { made += 1 }
    point.enable
    NB.run { 20.times { IO.pipe.each(&:close) } }
    assert_operator made, :<=, 2
  ensure
    point&.disable
  end

  def test_a_thread_that_sleeps_uses_none
    @thread = Thread.new { sleep }
    Thread.pass until @thread.stop?
    refute there?(@reader)
  end

  # It ends timeouts of a fiber that computes.
  def test_our_thread_for_timeouts_uses_none
    seen = NB.run do
      Timeout.timeout(1) { sleep 0.01 }
      Thread.pass until NB::Overtime.thread&.stop?
      NB::IOUsers.there?(@reader)
    end
    refute seen
  end

  private

  def read
    @thread = Thread.new do
      yield if block_given?
      @reader.read(1)
    end
    Thread.pass until @thread.stop?
  end

  def there?(io) = NB.run { NB::IOUsers.there?(io) }
end
