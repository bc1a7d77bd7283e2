# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/script_case"

# NB.run: the value and exceptions of its block, nesting, and leaving it early.
class RunTest < ScriptCase
  script "a lambda or a method without arguments is a block too", <<~'RUBY', out: "[1]\n", only: :fibers
    names = %i[run until_stop async shield offload blocking in_process]
    values = [-> { 1 }, 1.method(:itself)].flat_map do |block|
      NB.run { names.map { |name| NB.public_send(name, &block) } }
    end
    p values.map { |value| value.is_a?(NB::Task) ? value.value : value }.uniq
  RUBY

  script "NB.run in a fiber of a thread without a loop", <<~'RUBY', out: "[true, true, nil]\n[3, 4, \"q\", 5]\n[1, 2]\n", only: :fibers
    before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    value = Fiber.new { NB.run { sleep 1 } }.resume
    computed = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - before
    p [value >= 1, computed < 0.5, Fiber.scheduler]
    p(Fiber.new do
      Thread.current[:local] = 3
      [NB.run { NB.async { sleep 0.001 } && Thread.current[:local] },
       catch(:ball) { NB.run { throw :ball, 4 } },
       begin
         NB.run { raise IOError, "q" }
       rescue IOError => error
         error.message
       end,
       NB.run { break 5 }]
    end.resume)
    numbers = Enumerator.new { |y| y << NB.run { sleep(0.001) && 1 } << 2 }
    p [numbers.next, numbers.next]
  RUBY

  script "what a fiber is resumed with, or raises, comes to the NB.run in it", <<~'RUBY', out: "[1, 2, 3, 4, 5]\n[Hash, [7], [1, 2], nil, \"to you\"]\n", only: :fibers
    NB.run do
      NB.async { sleep 0.05 }
      answers = []
      fiber = Fiber.new(blocking: true) do
        NB.run do
          4.times { |n| answers << Fiber.yield(n + 1) }
          Fiber.yield(5)
        rescue IOError => error
          answers << error.message
        end
      end
      p [fiber.resume, fiber.resume({ 1 => 2 }), fiber.resume([7]), fiber.resume(1, 2), fiber.resume]
      fiber.raise(IOError, "to you")
      p [answers.shift.class, *answers]
    end
  RUBY

  script "the value of the block", <<~'RUBY', out: "42\n"
    p inside { sleep 0.01; 42 }
  RUBY

  script "the block finds the $? of the code around it, and leaves its own", <<~'RUBY', out: "3\n4\n", only: :fibers
    system("exit 3")
    inside do
      p $?.exitstatus
      system("exit 4")
    end
    p $?.exitstatus
  RUBY

  script "it ends when every fiber has ended", <<~'RUBY', out: "block\nlate\nafter\n", only: :fibers
    inside do
      block_is_over = Queue.new
      Fiber.schedule { block_is_over.pop && sleep(0.02) && puts("late") }
      puts "block"
      block_is_over << true
    end
    puts "after"
  RUBY

  script "an exception of the block", <<~'RUBY', out: "ensured\n[ArgumentError, \"x\"]\n"
    begin
      inside do
        sleep 0.01
        raise ArgumentError, "x"
      ensure
        puts "ensured"
      end
    rescue => error
      p [error.class, error.message]
    end
  RUBY

  script "an exception's backtrace names the block", <<~'RUBY', out: "true\n"
    def raising_place = raise("x")
    begin
      inside { sleep 0.001; raising_place }
    rescue => error
      p error.backtrace.first.include?("raising_place")
    end
  RUBY

  script "nested it runs in the same loop", <<~'RUBY', out: "same\n[1, 2]\n", only: :fibers
    value = NB.run do
      outer = Fiber.scheduler
      inner = NB.run { puts "same" if Fiber.scheduler.equal?(outer); sleep 0.001; 2 }
      [1, inner]
    end
    p value
  RUBY

  script "a nested block's exception stays in it", <<~'RUBY', out: "[\"inner\", :goes_on]\n", only: :fibers
    p(NB.run do
      error = begin
        NB.run { sleep 0.001; raise "inner" }
      rescue => e
        e.message
      end
      [error, :goes_on]
    end)
  RUBY

  script "one after the other", <<~'RUBY', out: "[0, 1, 2]\nnil\n", only: :fibers
    p Array.new(3) { |i| NB.run { sleep 0.001; i } }
    p Fiber.scheduler
  RUBY

  script "break leaves it with a value", <<~'RUBY', out: ":broken\nok\n"
    p(inside { sleep 0.001; break :broken })
    puts "ok"
  RUBY

  script "a break or throw of a thread is an error where it is joined", <<~'RUBY', out: "LocalJumpError\nUncaughtThrowError\n"
    Thread.report_on_exception = false
    [-> { inside { Thread.new { break 5 }.join } },
     -> { inside { Thread.new { throw :out }.join } }].each do |leave|
      catch(:out) { leave.call } && puts("left")
    rescue StandardError => error
      puts error.class
    end
  RUBY

  script "throw leaves it", <<~'RUBY', out: "ensured\n:thrown\nok\n"
    p(catch(:out) do
      inside do
        sleep 0.001
        throw :out, :thrown
      ensure
        puts "ensured"
      end
    end)
    puts "ok"
  RUBY

  script "exit inside ends the process with its status", <<~'RUBY', out: "ensured\nat exit\n", status: 3
    at_exit { puts "at exit" }
    inside do
      sleep 0.001
      exit 3
    ensure
      puts "ensured"
    end
  RUBY

  script "exit in a fiber beside the block", <<~'RUBY', out: "", status: 4, only: :fibers
    NB.run do
      Fiber.schedule { sleep 0.002; exit 4 }
      sleep 1
      puts "never"
    end
  RUBY

  script "abort and exit!", <<~'RUBY', out: "", status: 5
    inside { sleep 0.001; exit!(5) }
  RUBY

  script "without a block", <<~'RUBY', out: "ArgumentError\n", only: :fibers
    NB.run rescue p $!.class
  RUBY

  script "in several threads at once", <<~'RUBY', out: "[[0, 0], [1, 10], [2, 20]]\n"
    p Array.new(3) { |i| Thread.new { inside { a = go { sleep 0.01; i }; [finish(a), i * 10] } } }.map(&:value)
  RUBY

  script "an uncaught error of a fiber beside is reported and stops nothing", <<~'RUBY',
    p(NB.run { Fiber.schedule { sleep 0.001; raise "beside" }; sleep 0.01; :goes_on })
  RUBY
         out: ":goes_on\n", only: :fibers, err: /beside.*RuntimeError/m

  script "Fiber.set_scheduler at the top runs to the end of the thread", <<~'RUBY',
    Thread.new do
      Fiber.set_scheduler(NB::Scheduler.new)
      Fiber.schedule { sleep 0.01; puts "fiber" }
      puts "thread"
    end.join
    Fiber.set_scheduler(NB::Scheduler.new)
    Fiber.schedule { sleep 0.01; puts "at the end of the main thread" }
  RUBY
         out: "thread\nfiber\nat the end of the main thread\n", only: :fibers

  script "Fiber.set_scheduler nil runs what is left", <<~'RUBY', out: "ran\nnil\n", only: :fibers
    Fiber.set_scheduler(NB::Scheduler.new)
    Fiber.schedule { sleep 0.01; puts "ran" }
    Fiber.set_scheduler(nil)
    p Fiber.scheduler
  RUBY

  script "scheduler.run runs until all have ended", <<~'RUBY', out: "1\n2\n", only: :fibers
    scheduler = NB::Scheduler.new
    Fiber.set_scheduler(scheduler)
    Fiber.schedule { sleep 0.005; puts 1 }
    scheduler.run
    puts 2
  RUBY

  # As GraphQL::Dataloader does between its fibers.
  script "scheduler.run in a fiber of the loop lets the others have a turn", <<~'RUBY', out: "[1, 2, 3, 4, 5]\n", only: :fibers
    order = []
    NB.run do
      NB.async(background: true) { loop { sleep 0.001 } }
      Fiber.schedule { Fiber.scheduler.yield; order << 1 }
      Fiber.scheduler.run
      order << 2
      NB.async { Fiber.scheduler.run; order << 3 }.wait
      Fiber.new(blocking: false) { Fiber.scheduler.run; order << 4 }.resume
      Fiber.new(blocking: true) { Fiber.scheduler.run; order << 5 }.resume
      p order
    end
  RUBY

  script "waits of the main program before, between and after", <<~'RUBY', out: "true\ntrue\n"
    t = Time.now
    sleep 0.01
    inside { sleep 0.01 }
    sleep 0.01
    p Time.now - t >= 0.03
    r, w = IO.pipe
    w << "x"
    p r.read(1) == "x"
  RUBY

  script "a million-byte string through a socket and standard output", <<~'RUBY', out: "#{"x" * 1_000_000}\n"
    inside { a, b = UNIXSocket.pair; go { b.write("x" * 1_000_000); b.close }; puts a.read }
  RUBY

  script "standard input is read without stopping the others", <<~'RUBY', out: "nil\nticks\n"
    inside do
      ticking = go { 3.times { sleep 0.002 } }
      p $stdin.gets
      puts "ticks" if finish(ticking) == 3
    end
  RUBY

  # The loop asks before it sleeps. Another thread, or a trap handler, may come in between.
  script "who is woken while the loop asks what Thread#raise has left goes on", <<~'RUBY', out: "[:item, true]\n", only: :fibers
    NB.run do
      queue = Queue.new
      start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      later = NB.async { sleep 30 }
      Thread.current.define_singleton_method(:pending_interrupt?) do |*given|
        queue << :item if queue.num_waiting == 1
        super(*given)
      end
      p [queue.pop, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start < 25]
      later.cancel
    end
  RUBY
end
