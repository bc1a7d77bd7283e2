# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/script_case"

# fork inside and outside a fiber: the child starts clean and can wait, the parent's waits go on.
class ForkTest < ScriptCase
  CHILD = <<~'RUBY'
    def child_can_wait
      sleep 0.005
      a, b = UNIXSocket.pair
      b.write("x")
      system("exit 7")
      server = TCPServer.new("127.0.0.1", 0)
      client = TCPSocket.new("127.0.0.1", server.addr[1])
      server.accept.puts("line")
      [a.read(1), $?.exitstatus, client.gets, Thread.new { 1 }.value, Timeout.timeout(1) { 2 }]
    end
  RUBY
  ANSWER = "[\"x\", 7, \"line\\n\", 1, 2]\n"

  script "a block forked inside a fiber can wait", CHILD + <<~'RUBY', out: ANSWER + "0\n"
    inside { Process.wait(fork { p child_can_wait }); p $?.exitstatus }
  RUBY

  script "fork without a block, inside", CHILD + <<~'RUBY', out: ANSWER + "6\n"
    inside do
      if (pid = fork)
        Process.wait(pid)
        p $?.exitstatus
      else
        p child_can_wait
        exit!(6)
      end
    end
  RUBY

  # What it has started there runs to its end, or is cancelled, as at the end of NB.run.
  script "a fiber that has forked without a block ends before those of the child", <<~'RUBY', out: "began\ntask\n0\nbegan\nensured\n1\nbegan\nensured\n3\n", only: :fibers, ruby: "< 4", chaos: false, err: /oops/
    leaves = [-> {}, -> { raise "oops" }, -> { exit 3 }]
    NB.run do
      leaves.each do |leave|
        Fiber.schedule do
          if (pid = fork)
            Process.wait(pid)
            puts $?.exitstatus
          else
            Fiber.schedule do
              puts "began"
              sleep 0.1
              puts "task"
            rescue NB::Cancelled
              puts "ensured"
            end
            leave.call
          end
        end
        sleep 0.001 until NB.stats[:fibers] == 1
      end
    end
  RUBY

  # The error that the parent rescues meanwhile is not the child's.
  script "a forked block ends before the fibers that it has started", <<~'RUBY', out: "began\nslept\n0\nbegan\nensured\n1\nbegan\nensured\n3\nbegan\nslept\n0\n", only: :fibers, ruby: "< 4", chaos: false, err: /oops/
    work = lambda do
      puts "began"
      sleep 0.1
      puts "slept"
    rescue NB::Cancelled
      puts "ensured"
    end
    leave = lambda do |leaving|
      pid = fork do
        NB.async(&work)
        leaving.call
      end
      Process.wait(pid)
      puts $?.exitstatus
    end
    NB.run do
      [-> {}, -> { raise "oops" }, -> { exit 3 }].each(&leave)
      raise "rescued"
    rescue RuntimeError
      leave.call(-> {})
    end
  RUBY

  script "a fork of a fiber that keeps no loop going", <<~'RUBY', out: "[1, 0]\n[1, 0]\n", only: :fibers, ruby: "< 4"
    NB.run do
      Fiber.schedule do
        pid = Fiber.scheduler.idle { fork }
        Process.wait(pid) if pid
        p NB.stats.values_at(:fibers, :idle_fibers)
      end
    end
  RUBY

  script "a child forked inside leaves by exit", <<~'RUBY', out: "child\nparent 9\n"
    inside do
      pid = fork { puts "child"; exit 9 }
      Process.wait(pid)
      puts "parent #{$?.exitstatus}"
    end
  RUBY

  script "fork outside, the loop in both", CHILD + <<~'RUBY', out: ANSWER + ANSWER
    pid = fork { p(inside { child_can_wait }) }
    Process.wait(pid)
    p(inside { child_can_wait })
  RUBY

  script "a loop after a loop before the fork", CHILD + <<~'RUBY', out: ANSWER + ANSWER
    inside { sleep 0.001 }
    Process.wait(fork { p(inside { child_can_wait }) })
    p(inside { child_can_wait })
  RUBY

  script "the child runs a loop of its own inside the forked block", CHILD + <<~'RUBY', out: ANSWER + "done\n"
    inside { Process.wait(fork { p(inside { child_can_wait }) }); puts "done" }
  RUBY

  script "the parent's waits are untouched by the child", CHILD + <<~'RUBY', out: "[\"data\", true, :pushed]\n"
    inside do
      reader, writer = UNIXSocket.pair
      queue = Queue.new
      read = go { reader.read(4) }
      start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      slept = go { sleep 0.1; Process.clock_gettime(Process::CLOCK_MONOTONIC) - start >= 0.1 }
      popped = go { queue.pop }
      sleep 0.005
      pid = fork { child_can_wait; reader.close; exit!(0) }
      Process.wait(pid)
      writer.write("data")
      queue << :pushed
      p [finish(read), finish(slept), finish(popped)]
    end
  RUBY

  script "the parent's fibers do not run in the child", <<~'RUBY', out: "beside\nparent\n"
    inside do
      beside = go { sleep 0.1; puts "beside"; 1 }
      sleep 0.002
      Process.wait(fork { sleep 0.2 }) # until it would have come there too
      finish(beside)
      puts "parent"
    end
  RUBY

  # The inner hook stands for a signal that another thread had taken just before the fork.
  script "a signal's handler that waits before the child begins", <<~'RUBY', out: "beside\nhandler\nparent\n"
    signalled = Module.new do
      def begin_child
        Process.kill("USR1", Process.pid)
        super
      end
    end
    NB::Fork.singleton_class.prepend(signalled) unless PLAIN
    trap("USR1") { sleep 0.2; $stdout.syswrite("handler\n") }
    inside do
      beside = go { sleep 0.1; puts "beside"; 1 }
      sleep 0.002
      Process.wait(fork { Process.kill("USR1", Process.pid) if PLAIN; exit!(0) })
      finish(beside)
      puts "parent"
    end
  RUBY

  script "signals that come as children begin", <<~'RUBY', out: "{0=>100}\n"
    trap("USR1") { sleep 0.001; $came = true }
    inside do
      ended = Array.new(100) do
        pid = fork { sleep 0.001 until $came; exit!(0) }
        Process.kill("USR1", pid)
        Process.wait2(pid).last.exitstatus
      end
      puts ended.tally.inspect.delete(" ")
    end
  RUBY

  script "Fiber.scheduler in the child", <<~'RUBY', out: "true\n", only: :fibers
    NB.run { Process.wait(fork { sleep 0.001; r, w = IO.pipe; w << "x"; p r.read(1) == "x" }) }
  RUBY

  script "fork under Fiber.set_scheduler", CHILD + <<~'RUBY', out: ANSWER + "parent 0\n", only: :fibers
    Thread.new do
      Fiber.set_scheduler(NB::Scheduler.new)
      Fiber.schedule do
        Process.wait(fork { p child_can_wait })
        puts "parent #{$?.exitstatus}"
      end
    end.join
  RUBY

  script "fork in the main program with a scheduler set", CHILD + <<~'RUBY', out: ANSWER + "fiber\n", only: :fibers
    Fiber.set_scheduler(NB::Scheduler.new)
    Fiber.schedule { sleep 0.05; puts "fiber" }
    pid = fork { p child_can_wait }
    Process.wait(pid)
  RUBY

  script "a child uses the scheduler of another thread of the parent", <<~'RUBY', out: "[true, true]\n", only: :fibers
    scheduler = nil
    thread = Thread.new { NB.run { scheduler = Fiber.scheduler; sleep 60 } }
    sleep 0.01 until scheduler
    Process.wait(fork do
      scheduler.kernel_sleep(0.01)
      p :no_error
    rescue NB::Error => error
      p [[NB::ForkedError, NB::WrongThreadError].include?(error.class), error.message.size > 20]
    end)
    thread.kill.join
  RUBY

  script "daemon, spawn and popen of a fork inside", <<~'RUBY', out: "from the child\nspawned\n"
    inside do
      IO.popen("-") { |io| io ? puts(io.read) : (sleep(0.002); print("from the child")) }
      system("echo spawned")
    end
  RUBY

  script "many forks at once", <<~'RUBY', out: "[0, 1, 2, 3, 4, 5, 6, 7]\n"
    inside do
      codes = Array.new(8) { |i| go { Process.wait2(fork { sleep 0.01; exit!(i) }).last.exitstatus } }
      p codes.map { |code| finish(code) }
    end
  RUBY

  script "a fork of a fork", <<~'RUBY', out: "grandchild\nchild\nparent\n"
    inside do
      Process.wait(fork { Process.wait(fork { sleep 0.002; puts "grandchild" }); puts "child" })
      puts "parent"
    end
  RUBY

  script "nothing of the parent's other fibers is in the child", <<~'RUBY', out: "[0, 0, 0, 0, 1]\nalive\nparent true\n", only: :fibers, ruby: "< 4"
    inside do
      20.times { go { Timeout.timeout(0.1) { sleep 9 } rescue nil } }
      reader, = IO.pipe
      go { Timeout.timeout(0.1) { reader.read } rescue nil }
      pid = fork do
        p NB.stats.values_at(:timers, :watches, :parked, :ready, :fibers)
        sleep 0.15 # beyond their deadlines
        2.times { GC.start }
        5.times { 200.times { go { Array.new(50) { |i| "a" * i }; sleep 0.001 } }; sleep 0.01; GC.start }
        puts "alive"
        exit!(0)
      end
      Process.wait(pid)
      puts "parent #{$?.success?}"
    end
  RUBY

  # The thread that would raise does not survive the fork.
  script "a timeout around fork is the parent's", <<~'RUBY', out: "child\nparent\n"
    inside do
      Timeout.timeout(0.3) { fork { sleep 0.6; puts "child" }.then { |pid| Process.wait(pid) } }
    rescue Timeout::Error
      Process.wait
      puts "parent"
    end
  RUBY

  script "a fiber that ends in the child ends it", <<~'RUBY', out: "[0, 9, 1]\n", err: /in the child|\A\z/
    endings = [-> {}, -> { exit 9 }, -> { raise "in the child" }]
    inside do
      p(endings.map do |ending|
        finish(go { (pid = fork) ? Process.wait2(pid).last.exitstatus : ending.call })
      end)
    end
  RUBY

  # In the child the handler's fiber has lost those that it waited for.
  script "a handler of trap forks while all wait", <<~'RUBY', out: "child\nslept\nparent\n", only: :fibers, chaos: false
    parent = Process.pid
    signal_when_asleep(:USR1)
    reader, writer = IO.pipe
    trap(:USR1) { fork&.then { |pid| writer.syswrite("#{pid}\n") } }
    inside do
      asleep
      Process.wait(Integer(reader.gets)) # only one wait, so that the signal comes to the loop
      puts "slept"
    end
    puts Process.pid == parent ? "parent" : "child"
  RUBY

  script "what a fiber of the parent masks", <<~'RUBY', out: "ended\n"
    inside do
      go { Thread.handle_interrupt(IOError => :never) { sleep 1 } }
      Process.wait(fork do
        Timeout.timeout(0.05) { nil while true }
      rescue Timeout::Error
        puts "ended"
      end)
    end
  RUBY

  # Ruby keeps them in the mutex's list, on stacks that the child has no use for.
  script "those who wait for a mutex in the parent", <<~'RUBY', out: "again\ngot\nparent\n"
    inside do
      mutex = Mutex.new
      mutex.lock
      others = Array.new(50) { go { mutex.synchronize { 1 } } }
      sleep 0.05
      pid = fork do
        others = nil
        GC.start
        fibers = Array.new(200) { Fiber.new { [1].each { Fiber.yield } }.tap(&:resume) }
        mutex.unlock
        mutex.synchronize { puts "again" }
        mutex.lock
        waiting = go { mutex.synchronize { puts "got" } }
        sleep 0.05
        mutex.unlock
        Timeout.timeout(10) { finish waiting }
        exit!(0)
      end
      Process.wait(pid)
      mutex.unlock
      others.each { |other| finish other }
      puts "parent"
    end
  RUBY

  # A child has Ruby release what its other threads held.
  script "mutexes that are held in the parent", <<~'RUBY', out: "[:mutex, :monitor, :pipe]\n[true, false]\n"
    require "monitor"
    inside do
      mutex = Mutex.new
      monitor = Monitor.new
      reader, writer = IO.pipe
      holders = [go { mutex.synchronize { sleep 1.5; 1 } }, go { monitor.synchronize { sleep 1.5; 2 } },
                 go { mutex.synchronize { 3 } }, go { writer.write("x" * 200_000) }]
      sleep 0.05
      pid = fork do
        got = [mutex.synchronize { sleep 0.001; :mutex }, monitor.synchronize { sleep 0.001; :monitor }]
        go { loop { reader.readpartial(200_000) } }
        writer.sync = true
        writer.write("y")
        waiting = go { mutex.synchronize { got << :pipe } }
        Timeout.timeout(10) { finish waiting }
        GC.start
        p got
        exit!(0)
      end
      Process.wait(pid)
      p [mutex.locked?, mutex.owned?]
      drain = go { reader.read }
      holders.each { |holder| finish holder }
      writer.close
      finish drain
    end
  RUBY

  script "a mutex that is held and waited for in the parent, forked twice", <<~'RUBY', out: "got\nended\n"
    inside do
      mutex = Mutex.new
      holders = Array.new(3) { go { mutex.synchronize { sleep 0.2 } } }
      sleep 0.05
      Process.wait(fork do
        Process.wait(fork { mutex.synchronize { sleep 0.001; puts "got" }; exit!(0) })
        exit!(0)
      end)
      holders.each { |holder| finish holder }
      puts "ended"
    end
  RUBY

  script "exit in a child, of one who waits for a mutex in the parent", <<~'RUBY', out: "3 4\nended\n"
    inside do
      mutex, mine = Mutex.new, Mutex.new
      all = Array.new(3) { go { mutex.synchronize { sleep 0.1 } } }
      mine.lock
      all += Array.new(3) { go { mine.synchronize { 1 } } }
      sleep 0.03
      statuses = [-> { mutex.lock; exit(3) }, -> { exit(4) }].map { |ending| Process.wait2(fork(&ending)).last }
      puts statuses.map(&:exitstatus).join(" ")
      mine.unlock
      all.each { |strand| finish strand }
      puts "ended"
    end
  RUBY

  script "a mutex that is held in the parent, forked in an Enumerator", <<~'RUBY', out: "got\nended\n"
    inside do
      mutex = Mutex.new
      holder = go do
        mutex.synchronize { sleep 0.3 }
      ensure
        puts "ended"
      end
      sleep 0.05
      each = Enumerator.new { |yielder| yielder << fork { mutex.synchronize { puts "got" }; exit!(0) } }
      Process.wait(each.next)
      finish holder
    end
  RUBY

  # Who has resumed another fiber cannot be entered.
  script "mutexes that are held in the parent around a fiber that waits", <<~'RUBY', out: "[:first, :second]\n[:first, :second]\nended\n", ruby: "< 4"
    inside do
      first, second = Mutex.new, Mutex.new
      holders = [go { first.synchronize { Enumerator.new { |list| list << sleep(1) }.next } },
                 go { second.synchronize { Fiber.new { sleep 1 }.resume } },
                 go { second.synchronize { 1 } }]
      sleep 0.05
      work = lambda do
        Timeout.timeout(10) { p [first.synchronize { :first }, second.synchronize { sleep 0.001; :second }] }
        GC.start
      end
      Process.wait(fork { work.call; Process.wait(fork { work.call; exit!(0) }); exit!(0) })
      holders.each { |holder| finish holder }
      puts "ended"
    end
  RUBY

  # Nothing keeps these once their threads are gone.
  script "the collector frees other threads' loops while the child cleans its own", <<~'RUBY', out: "0\n", only: :fibers
    inside do
      5.times { Thread.new { NB.run { sleep } } }
      lock = Thread::Mutex.new
      def lock.owned? = GC.start || super # the child asks
      go { lock.synchronize { sleep } }
      go { lock.synchronize { 1 } }
      sleep 0.2
      GC.disable
      p Process.wait2(fork { exit!(0) }).last.exitstatus
      exit!(0)
    end
  RUBY

  script "an exception in the forked block", <<~'RUBY', out: "1\n", err: /in the child/
    inside { Process.wait(fork { sleep 0.001; raise "in the child" }); p $?.exitstatus }
  RUBY

  script "fds of the loop do not leak into the child", <<~'RUBY', out: "true\n"
    def fds = Dir.children("/proc/self/fd").size
    inside do
      sleep 0.001
      r, w = IO.pipe
      before = fds
      Process.wait(fork { sleep 0.001; w.syswrite([fds].pack("N")); exit!(0) })
      p r.read(4).unpack1("N") <= before
    end
  RUBY
end
# rubocop:enable Layout/LineLength
