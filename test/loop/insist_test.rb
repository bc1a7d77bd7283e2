# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require_relative "../support/subprocess"

# How a loop ends whose fibers rescue NB::Cancelled and go on. In virtual time, so that the seconds
# between two cancels take none.
class LoopInsistTest < Minitest::Test
  def test_it_cancels_again_who_has_rescued_it
    assert_equal [:value, 4], within_time { |caught| swallowing(3, caught) && :value }
    assert_equal [:value, 2], within_time { |caught| swallowing(1, caught) && :value }
    caught = []
    assert_raises(IOError) do
      NB.run(clock: :virtual) { swallowing(3, caught, background: false) && raise(IOError) }
    end
    assert_equal 4, caught.size
  end

  def test_it_ends_without_who_goes_on_for_ever
    result = Subprocess.ruby(<<~'RUBY')
      NB.run(clock: :virtual) do
        queue = Thread::Queue.new
        NB.async do
          loop do
            queue.pop
          rescue Exception
            nil
          end
        end
        exit 3
      end
    RUBY
    assert_equal 3, result.status.exitstatus
    assert_match(/ends without a fiber that has rescued NB::Cancelled 4 times .*-e:5:/, result.err)
  end

  # `sleep`, which never deadlocks, and a queue, which does.
  def test_an_error_after_a_wait_ends_the_loop_all_the_same
    ["sleep", "Thread::Queue.new.pop"].each do |wait|
      result = Subprocess.ruby(<<~RUBY)
        NB.run(clock: :virtual) do
          NB.async do
            loop { #{wait} }
          rescue Exception
            retry
          end
          sleep 1
          exit 3
        end
      RUBY
      assert_equal 3, result.status.exitstatus, result.err
      assert_match(/ends without a fiber/, result.err)
    end
  end

  def test_the_end_of_a_program_that_is_told_to_stop_insists_too
    result = Subprocess.ruby(<<~RUBY)
      NB.run(clock: :virtual, on_interrupt: :drain, drain_timeout: 0) do
        NB.async do
          sleep 1
          Process.kill(:INT, Process.pid)
          loop { sleep }
        rescue Exception
          retry
        end
      end
    RUBY
    assert_equal Signal.list["INT"], result.status.termsig, result.err
    assert_match(/ends without a fiber/, result.err)
  end

  # The Enumerator's own fiber waits (on Ruby 3.1: outside the loop).
  def test_it_waits_for_what_a_shield_has_resumed
    [-> { Enumerator.new { |all| all << sleep(0.01) }.next },
     -> { Fiber.new { sleep(0.01) }.resume }].each do |wait|
      finished = []
      NB.run { NB.async(background: true) { NB.shield { wait.call && finished << :shield } } }
      assert_equal [:shield], finished
    end
  end

  def test_it_waits_for_a_shield_however_long_it_takes
    finished = []
    NB.run(clock: :virtual) do
      NB.async(background: true) do
        NB.shield { sleep(100) && finished << :shield }
        finished << :behind
      ensure
        finished << $!.class
      end
    end
    assert_equal [:shield, NB::Cancelled], finished
  end

  # What left the wait is still `$!` there.
  def test_it_waits_for_an_ensure_and_a_rescue_however_long_they_take
    finished = []
    NB.run(clock: :virtual) do
      NB.async(background: true) do
        sleep
      ensure
        sleep(100) && finished << :ensure
      end
      NB.async(background: true) do
        sleep
      rescue NB::Cancelled
        sleep(100) && finished << :rescue
        raise
      end
    end
    assert_equal %i[ensure rescue], finished.sort
  end

  private

  def swallowing(times, caught, background: true)
    NB.async(background: background) do
      times.times do
        sleep
      rescue NB::Cancelled => error
        caught << error
      end
      sleep
    rescue NB::Cancelled => error
      caught << error
    end
  end

  # @return [Array] the block's value, and the number of cancels
  def within_time
    caught = []
    thread = Thread.new { NB.run(clock: :virtual) { yield caught } }
    assert thread.join(60), "the loop hangs"
    [thread.value, caught.size]
  end
end
