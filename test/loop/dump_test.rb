# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "socket"
require "tempfile"
require_relative "../support/subprocess"

class DumpTest < Minitest::Test
  def test_every_wait_is_named_with_its_line
    text = NB.run do
      near, far = UNIXSocket.pair
      tasks = [NB.async { near.read(1) }, NB.async { sleep 60 }, NB.async { Thread::Queue.new.pop }]
      NB.dump.to_s.tap { tasks.each { |task| task.cancel.wait } && far.close }
    end

    assert_match(/readable fd \d+/, text)
    assert_match(/for sleep \(at most (59|60)\.\d+ s more\)/, text)
    assert_match(/for #<Thread::Queue/, text)
    assert_match(/runs$/, text)
    assert_operator text.scan("#{__FILE__}:").size, :>=, 4
  end

  # From Ruby 3.4 on methods in C have their caller's path, ours too.
  def test_a_place_is_named_by_the_method_of_the_program
    places = NB.run do
      tasks = [NB.async { sleep 60 }, NB.async { Thread::Queue.new.pop }]
      NB::Dump.new(Fiber.scheduler).places.tap { tasks.each { |task| task.cancel.wait } }
    end

    assert_equal 2, places.size
    places.each { |place| assert_match(/\A#{__FILE__}:\d+:in .*block .*#{__method__}'/, place) }
  end

  # Ruby's lock has no class: to ask it anything ends the process.
  def test_a_fiber_that_waits_for_a_require_of_another
    Tempfile.create(["slow", ".rb"]) do |file|
      file.write("$gate.pop") && file.flush
      script = "NB.run { gate = $gate = Queue.new; " \
               "tasks = Array.new(2) { NB.async { require #{file.path.inspect} } }; " \
               "puts NB.dump; gate << 1; p tasks.map(&:value) }"
      result = Subprocess.ruby(script)
      assert_match(/a lock of Ruby's own/, result.out, result.err)
      assert_match(/^\[true, false\]$/, result.out)
    end
  end

  def test_a_signal_prints_it
    script = "NB.dump_on(:USR1); NB.run { Fiber.schedule { sleep 0.05 }; Process.kill(:USR1, $$) }"
    output = IO.popen([RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", "-rneverblock",
                       "-e", script, { err: %i[child out] }], &:read)

    assert_match(/NB::Scheduler \w+, 2 fibers/, output)
    assert_match(/for sleep/, output)
  end

  # As in a program whose loops run beside its main thread: Puma's plugin, workers of jobs.
  # Rails applications often have -W0 in RUBYOPT.
  def test_a_signal_prints_the_loops_of_all_threads
    [[], %w[-W0]].each do |options|
      result = Subprocess.ruby(<<~RUBY, options: options)
        NB.dump_on(:USR1)
        begun, over = Queue.new, Queue.new
        threads = Array.new(2) do |i|
          Thread.new { NB.run { NB.async(name: "of thread \#{i}") { begun << 1; over.pop }; sleep 0 } }
        end
        2.times { begun.pop }
        Process.kill(:USR1, $$)
        2.times { over << 1 }
        threads.each(&:join)
        Process.kill(:USR1, $$)
      RUBY
      assert_equal 2, result.err.scan(/NB::Scheduler \w+,/).size, result.err
      assert_match(/of thread 0.*of thread 1|of thread 1.*of thread 0/m, result.err)
      assert_match(/^no loop runs in process \d+$/, result.err)
    end
  end

  def test_there_is_none_without_a_loop
    assert_nil NB.dump
    assert_nil NB.stats
  end

  # The memory for the list is that of the fibers that wait then.
  def test_fibers_that_begin_to_wait_while_the_waits_are_asked
    result = Subprocess.ruby(<<~'RUBY')
      NB.run do
        asked = Object.new
        def asked.to_hash
          5000.times { NB.async(background: true) { sleep } }
          {}.compare_by_identity
        end
        p [Fiber.scheduler.waits(2, asked).size, Fiber.scheduler.waits(nil, asked).size]
        GC.start
      end
    RUBY
    assert_equal ["[2, 10001]\n", true], [result.out, result.status.success?], result.err
  end
end
