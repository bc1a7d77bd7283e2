# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/script_case"

# When every fiber waits for another and nothing is left to wake one, that is an error that shows
# who waits for what, as Ruby's own check is for threads. What can still be woken is none.
class DeadlockTest < ScriptCase
  CATCH = <<~'RUBY'
    def deadlock
      NB.run { yield }
      p :no_error
    rescue NB::DeadlockError => error
      p [error.class, error.message.lines.size > 1]
    end
  RUBY
  FOUND = "[NB::DeadlockError, true]\n"

  script "a queue that nobody pushes to", "#{CATCH}deadlock { Queue.new.pop }", out: FOUND,
only: :fibers

  script "two fibers and two mutexes", CATCH + <<~'RUBY', out: FOUND, only: :fibers
    deadlock do
      a, b = Mutex.new, Mutex.new
      Fiber.schedule { a.synchronize { sleep 0.002; b.synchronize { } } }
      b.synchronize { sleep 0.002; a.synchronize { } }
    end
  RUBY

  script "a bare sleep waits for a signal", <<~'RUBY', out: "waiting\nTERM\n", only: :fibers
    trap(:TERM) { puts "TERM"; exit }
    signal_when_asleep(:TERM)
    puts "waiting"
    NB.run { Fiber.schedule { Queue.new.pop }; asleep; sleep }
  RUBY

  script "a thread that was killed is not asleep", <<~'RUBY', out: "0\n", only: :fibers
    NB.run do
      queue = Queue.new
      20.times do
        thread = Thread.new { queue.pop }
        Thread.pass until thread.stop?
        thread.kill.join
      end
      p queue.num_waiting
    end
  RUBY

  # One of them looks as if it waited for the mutex that it has just got.
  script "threads that pass mutexes to each other", <<~'RUBY', out: ":ended\n", only: :fibers
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    def compute = now.then { |start| nil while now - start < 0.03 }
    mutexes, ready, turns = Array.new(3) { Mutex.new }, Queue.new, [0, 2, 1] * 6
    NB.run do
      first = Thread.new do
        mutexes.values_at(0, 2).each(&:lock)
        ready.pop
        turns.each { |n| mutexes[n].unlock; mutexes[(n + 1) % 3].lock; compute }
      end
      second = Thread.new do
        mutexes[1].lock
        ready << true
        turns.each { |n| mutexes[n].lock; compute; mutexes[(n + 1) % 3].unlock }
      end
      [first, second].each(&:join)
    end
    p :ended
  RUBY

  script "every other thread sleeps too", CATCH + <<~'RUBY', out: FOUND, only: :fibers
    Thread.new { Thread.stop }
    deadlock { Queue.new.pop }
  RUBY

  script "a condition that nobody signals", CATCH + <<~'RUBY', out: FOUND, only: :fibers
    deadlock { Mutex.new.tap { |m| m.synchronize { ConditionVariable.new.wait(m) } } }
  RUBY

  script "only a fiber beside waits, the block has ended", CATCH + <<~'RUBY', out: FOUND, only: :fibers
    deadlock { Fiber.schedule { Queue.new.pop }; :ended }
  RUBY

  script "the message names the fibers and their place", <<~'RUBY', out: "true\n", only: :fibers
    def the_place_of_waiting = Queue.new.pop
    begin
      NB.run { the_place_of_waiting }
    rescue NB::DeadlockError => error
      p error.message.include?("the_place_of_waiting")
    end
  RUBY

  script "the lines of the program come first, also where a library waits", <<~'RUBY', out: "one:\n[-10, -5]\n1\n", only: :fibers
    require "neverblock"
    def take(queue) = queue.pop
    begin
      NB.run do
        NB.async(name: "worker") { take(Queue.new) }
        limiter = NB::Limiter.new(1)
        limiter.with { limiter.with { 1 } }
      end
    rescue NB::DeadlockError => error
      # Of each fiber the line in this script, what it waits for, and the task.
      first, *places = error.message.lines.take_while { |line| !line.start_with?("#<") }
      puts first.split.last, places.map { |line| line[/\A  -e:(\d+):in/, 1].to_i - __LINE__ }.sort.inspect
      puts places.grep(/ waits for #<Thread::Queue:0x\h+> in #<NB::Task worker /).size
    end
  RUBY

  script "ensure blocks run", <<~'RUBY', out: "ensured\nNB::DeadlockError\n", only: :fibers
    begin
      NB.run { begin Queue.new.pop ensure puts "ensured" end }
    rescue NB::DeadlockError => error
      p error.class
    end
  RUBY

  script "the loop can be used again where an ensure waits in vain too", <<~'RUBY', out: "true\nnil\n1\n", only: :fibers
    begin
      NB.run { begin Queue.new.pop ensure begin Queue.new.pop ensure Queue.new.pop end end }
    rescue NB::DeadlockError => error
      p error.is_a?(NB::Error), Fiber.scheduler
    end
    p(NB.run { sleep 0.001; 1 })
  RUBY

  script "the loop can be used again", CATCH + <<~'RUBY', out: "#{FOUND}1\n", only: :fibers
    deadlock { Queue.new.pop }
    p(NB.run { sleep 0.001; 1 })
  RUBY

  script "a socket is no deadlock", <<~'RUBY', out: "\"x\"\n", only: :fibers
    a, b = UNIXSocket.pair
    Thread.new { sleep 0.05; b.write("x") }
    p(NB.run { a.read(1) })
  RUBY

  script "another thread may still push", <<~'RUBY', out: ":late\n", only: :fibers
    queue = Queue.new
    Thread.new { sleep 0.1; queue << :late }
    p(NB.run { queue.pop })
  RUBY

  # Of threads without a native one Ruby says that they sleep forever, whatever they wait for.
  def test_another_thread_of_RUBY_MN_THREADS_may_still_push
    result = Subprocess.ruby(<<~'RUBY', env: { "RUBY_MN_THREADS" => "1" })
      queue, (reader, writer) = Queue.new, IO.pipe
      Thread.new { sleep 0.5; writer.close }
      Thread.new { queue << reader.read }
      p NB.run { [queue.pop, Thread.new { sleep 0.5; :slept }.value] }
    RUBY
    assert_equal ["[\"\", :slept]\n", ""], [result.out, result.err]
  end

  script "a child is no deadlock", <<~'RUBY', out: "0\n", only: :fibers
    NB.run { Process.wait(spawn("sleep 0.05")); p $?.exitstatus }
  RUBY

  script "a trap may still push", <<~'RUBY', out: ":trap\n", only: :fibers
    queue = Queue.new
    trap(:USR1) { queue << :trap }
    signal_when_asleep(:USR1)
    p(NB.run do
      beside = NB.async { sleep 60 } # not forever: who sleeps so waits for a signal
      asleep
      queue.pop.tap { beside.cancel }
    end)
  RUBY
end
# rubocop:enable Layout/LineLength
