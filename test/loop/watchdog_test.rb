# frozen_string_literal: true

require "minitest/autorun"
require "tempfile"
require_relative "../support/subprocess"

# What is planted stands still until it is reported: no test depends on how fast the machine is.
class WatchdogTest < Minitest::Test
  TELL = "def Warning.warn(*, **) = ($told = true; super); "
  COMPUTE = "#{TELL}def compute = (nil until $told)\n".freeze
  BLOCKING = "#{TELL}def blocked = Fiber.new(blocking: true) { sleep 0.01 until $told }" \
             ".resume\n".freeze

  def stderr(script, watchdog: "1")
    result = Subprocess.ruby(script, env: { "NB_WATCHDOG" => watchdog }, limit: 60)
    assert_predicate result.status, :success?, result.err
    result.err
  end

  def test_a_ruby_loop_is_named
    assert_match(/stood still for \d+ ms at -e:1:in .*: it computes. NB.in_process/,
                 stderr("#{COMPUTE} NB.run { compute }"))
  end

  def test_a_sleep_in_a_blocking_fiber_is_named
    assert_match(/stood still for \d+ ms at -e:1:in .*: it waits .* NB.offload/,
                 stderr("#{BLOCKING} NB.run { blocked }"))
  end

  def test_a_file_lock_in_a_blocking_fiber_is_named
    Tempfile.create("lock") do |file|
      path = file.path.inspect
      script = "#{TELL}def lock = Fiber.new(blocking: true) { File.new(#{path}).flock(2) }" \
               ".resume\nholder = File.new(#{path}).tap { |f| f.flock(2) }; " \
               "Thread.new { sleep 0.01 until $told; holder.flock(8) }; " \
               "NB.run(repairs: false) { lock }"

      assert_match(/ at -e:1:in .*flock.*: it waits/, stderr(script))
    end
  end

  def test_each_place_is_reported_once_a_minute
    err = stderr("#{TELL}def blocked = Fiber.new(blocking: true) { sleep 0.3 }.resume\n" \
                 "NB.run { (blocked; sleep 0.01) until $told; 2.times { blocked; sleep 0.01 } }")

    assert_equal 1, err.scan("stood still").size, err
  end

  def test_a_forked_child_reports_beside_loops_of_other_threads_of_its_parent
    err = stderr("#{BLOCKING} t = Thread.new { NB.run { sleep } }; sleep 0.1; " \
                 "NB.run { Process.wait(fork { blocked }) }; " \
                 "Process.wait(fork { NB.run { blocked } }); t.kill.join")

    assert_equal 2, err.scan(/the loop of pid (\d+) has stood/).uniq.size, err
  end

  def test_waiting_in_the_loop_is_nothing_to_report
    assert_empty stderr("NB.run { 3.times { NB.async { sleep 0.4 } }; sleep 0.4; " \
                        "system('sleep 0.4') }")
  end

  def test_nobody_looks_unless_asked
    [nil, "0"].each do |off|
      assert_empty stderr("NB.run { Fiber.new(blocking: true) { sleep 0.3 }.resume }; " \
                          "warn NB::Watchdog.thread.inspect if NB::Watchdog.thread", watchdog: off)
    end
  end

  def test_a_deadlock_is_still_told
    result = Subprocess.ruby("NB.run { Queue.new.pop }", env: { "NB_WATCHDOG" => "1" })

    assert_match(/NB::DeadlockError/, result.err)
  end

  def test_it_ends_with_the_program
    refute Subprocess.ruby("NB.run { sleep 0.01 }", env: { "NB_WATCHDOG" => "1" }).hung
  end

  def test_what_is_no_number_is_refused
    ["abc", "-5", "1e9", ""].each do |value|
      result = Subprocess.ruby("NB.run { 1 }", env: { "NB_WATCHDOG" => value })

      refute_predicate result.status, :success?
      assert_match(/NB_WATCHDOG: must be 1 .* got: #{value.inspect}/, result.err)
    end
  end
end
