# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/script_case"

# A wake-up that comes before the wait: when the hooks are wrapped in Ruby (a profiler's, a
# subclass), other threads run between the moment a fiber is put on a lock's list and its wait.
class EarlyUnblockTest < ScriptCase
  # In each hook, at the worst place, what `$early` holds is done by another thread.
  WRAPPED = <<~'RUBY'
    class Wrapped < NB::Scheduler
      def act(early)
        $early = $early_block = nil
        Fiber.new(blocking: true) { Thread.new(&early).join; nil }.resume if early
      end
      def block(*) = act($early || $early_block) || super
      def kernel_sleep(*) = act($early) || super
    end
    def inside
      Thread.new do
        Fiber.set_scheduler(Wrapped.new)
        Fiber.schedule { yield }
      end.join
    end
    def took
      start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      value = yield
      [value, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start < 4]
    end
  RUBY

  def self.wrapped(name, source, out:, **options)
    script(name, WRAPPED + source, out: out, only: :fibers, **options)
  end

  wrapped "a queue's push", <<~'RUBY', out: "[1, true]\n"
    queue = Queue.new
    inside { $early = -> { queue << 1 }; p took { queue.pop } }
  RUBY

  wrapped "a queue's close", <<~'RUBY', out: "[nil, true]\n"
    queue = Queue.new
    inside { $early = -> { queue.close }; p took { queue.pop } }
  RUBY

  wrapped "a full queue's pop", <<~'RUBY', out: "[2, true]\n"
    queue = SizedQueue.new(1)
    queue << 1
    inside { $early = -> { queue.pop }; p took { (queue << 2).pop } }
  RUBY

  wrapped "a mutex's unlock", <<~'RUBY', out: "[true, true]\n"
    mutex = Mutex.new
    go, done = Queue.new, Queue.new
    Thread.new { mutex.synchronize { done << 1; go.pop }; done << 2 }
    done.pop
    inside { $early = -> { go << 1; done.pop }; p took { mutex.synchronize { mutex.owned? } } }
  RUBY

  wrapped "a thread's end", <<~'RUBY', out: "[true, true]\n"
    go = Queue.new
    thread = Thread.new { go.pop }
    inside { $early = -> { go << 1; thread.join }; p took { thread.join.equal?(thread) } }
  RUBY

  %w[signal broadcast].each do |name|
    ["", ", 5"].each do |timeout|
      wrapped "a condition's #{name} #{timeout}", <<~RUBY, out: "[true, true]\n"
        mutex, condition = Mutex.new, ConditionVariable.new
        inside do
          $early = -> { mutex.synchronize { condition.#{name} } }
          p took { mutex.synchronize { !!condition.wait(mutex#{timeout}) } }
        end
      RUBY
    end
  end

  wrapped "a monitor's condition", <<~'RUBY', out: "[true, true]\n"
    require "monitor"
    monitor = Monitor.new
    condition = monitor.new_cond
    inside do
      $early = -> { monitor.synchronize { condition.signal } }
      p took { monitor.synchronize { condition.wait(5) } }
    end
  RUBY

  wrapped "a wake-up after the wait's end, before the lock is had again, wakes no other wait", <<~'RUBY', out: "[nil, true, nil]\n"
    mutex, condition = Mutex.new, ConditionVariable.new
    inside do
      Fiber.schedule do
        sleep 0.001
        mutex.synchronize { $early_block = -> { condition.signal }; sleep 0.05 }
      end
      value = mutex.synchronize { condition.wait(mutex, 0.02) }
      start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      sleep 0.03
      ended = Thread.new { sleep }.join(0.02)
      p [value, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start >= 0.05, ended]
    end
  RUBY

  # As when a signal's exception comes out of the hook: nobody waits for the lock any more.
  wrapped "a wake-up before a lock's wait that does not come wakes no later wait for its condition", <<~'RUBY', out: "in the hook\nnil\n"
    class Wrapped
      def block(*) = $early ? act($early) || raise("in the hook") : super
    end
    mutex, condition = Mutex.new, ConditionVariable.new
    go, done = Queue.new, Queue.new
    Thread.new { mutex.synchronize { done << 1; go.pop }; done << 2 }
    done.pop
    inside do
      $early = -> { go << 1; done.pop }
      mutex.lock rescue puts $!.message
      p mutex.synchronize { condition.wait(mutex, 0.05) }
    end
  RUBY

  # Ruby 3.4 waits in Mutex#sleep until the thread has left the socket.
  wrapped "a reader's end before the close that waits for it", <<~'RUBY', out: "[nil, true]\nIOError\n"
    require "socket"
    socket, other = UNIXSocket.pair
    reader = Thread.new { socket.read(1) rescue $!.class }
    Thread.pass until reader.stop?
    inside { $early = -> { reader.join }; p took { socket.close } }
    p reader.value
  RUBY

  # As SleepingBlockingScheduler of Ruby's own tests.
  script "a sleep of a subclass that stands still first", <<~'RUBY', out: "[true, true]\n", only: :fibers
    class Standing < NB::Scheduler
      def kernel_sleep(duration = nil)
        Fiber.new(blocking: true) { sleep 0.0001 }.resume
        block(:sleep, duration)
        true
      end
    end
    mutex, condition, signalled = Mutex.new, ConditionVariable.new, 0
    thread = Thread.new do
      Fiber.set_scheduler(Standing.new)
      Fiber.schedule { 50.times { mutex.synchronize { condition.wait(mutex) } }; signalled = true }
    end
    until signalled == true
      mutex.synchronize { condition.signal }
      Thread.pass
    end
    p [signalled, !!thread.join(5)]
  RUBY

  # Array#first ends with a check for interrupts on Ruby 3.4: whoever asks there lets others run.
  script "a signal between the unlock and the wait", <<~'RUBY', out: "[1, true]\n"
    mutex, condition, go, item = Mutex.new, ConditionVariable.new, Queue.new, nil
    inside do
      Thread.new { go.pop; mutex.synchronize { item = 1; condition.signal } }
      sleep 0.05
      class Array
        alias original_first first
        def first(*count)
          original_first(*count)
        ensure
          $switch &&= 200.times { Thread.pass } && nil
        end
      end
      mutex.synchronize do
        go << 1
        $switch = true
        start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        condition.wait(mutex, 5)
        p [item, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start < 4]
      end
    end
  RUBY
end
# rubocop:enable Layout/LineLength
