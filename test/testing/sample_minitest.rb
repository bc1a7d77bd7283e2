# frozen_string_literal: true

require "minitest/autorun"
require "net/http"
require "vcr"
require "webmock/minitest"
require "neverblock/minitest"

VCR.configure do |config|
  config.hook_into :webmock
  config.cassette_library_dir = ENV.fetch("CASSETTES")
end
WebMock.disable_net_connect!

# What minitest_test.rb runs and judges.
class SampleTest < Minitest::Test
  include NB::Minitest
  virtual_time!

  def setup
    sleep(3600)
    @log = [NB.running?]
  end

  def teardown
    sleep(3600)
    assert_equal [true], @log if name.end_with?("teardown")
  end

  def test_passes = assert_equal(:done, NB.async { sleep(3600) && :done }.value)
  def test_fails = assert_equal(1, NB.async { sleep(3600) && 2 }.value)
  def test_raises = raise(IOError, "no such page")
  def test_is_skipped = sleep(3600) && skip("later")
  def test_checks_in_teardown = assert(NB.running?)
  def test_times_out = Timeout.timeout(3600) { sleep }
  def test_deadlocks = Thread::Queue.new.pop
  def test_a_task_fails = NB.async(name: "mailer") { raise IOError, "not delivered" }
  def test_an_assertion_in_a_task_fails = NB.async { flunk "not so" } && sleep(1)
  def test_leaves_a_task_behind = NB.async(name: "forgotten") { sleep }

  def test_fails_and_leaves_a_task_behind
    NB.async { sleep }
    flunk "first"
  end

  def test_waits_for_a_task_that_fails
    task = NB.async { raise IOError }
    sleep(1)
    assert_raises(IOError) { task.value }
  end

  def test_cancels_a_task
    NB.async { sleep }.cancel
    assert_raises(IOError) { NB.group { |group| group.async { raise IOError } && sleep } }
  end

  def test_has_background_work
    NB.async(background: true) { sleep }
    ticks = 0
    NB.every(60) { ticks += 1 }
    sleep(3599)
    assert_equal 59, ticks
  end

  def test_web_mock
    stub_request(:get, "http://example.com/").to_timeout.then.to_return(body: "hello")
    fetch = -> { Net::HTTP.get(URI("http://example.com/")) }
    assert_equal "hello", NB.retry(times: 2, wait: 3600, on: Net::OpenTimeout) { fetch.call }
    assert_equal %w[hello hello], NB.gather(fetch, fetch)
  end

  def test_vcr
    page = VCR.use_cassette("page") do
      NB.timeout(3600) { NB.async { Net::HTTP.get(URI("http://example.com/page")) }.value }
    end
    assert_equal "recorded", page
  end
end

# Each on a thread of its own, with a loop of its own.
class ParallelSampleTest < Minitest::Test
  include NB::Minitest
  virtual_time!
  parallelize_me!

  4.times do |number|
    define_method("test_#{number}") do
      schedulers = NB.gather(*Array.new(3) { -> { sleep(3600) && Fiber.scheduler } }).uniq
      assert_same Fiber.scheduler, schedulers.first
      assert_equal 1, schedulers.size
    end
  end
  def test_leaves_a_task_behind_too = NB.async { sleep }
end

class RealSampleTest < Minitest::Test
  include NB::Minitest

  def test_takes_time
    start = Process.clock_gettime(Process::CLOCK_REALTIME)
    sleep(0.05)
    assert_operator Process.clock_gettime(Process::CLOCK_REALTIME) - start, :>=, 0.049
  end
end

class PlainSampleTest < Minitest::Test
  def test_has_no_loop = refute_predicate(NB, :running?)
end
