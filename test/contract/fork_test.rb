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

  script "the parent's fibers do not run in the child", <<~'RUBY', out: "child\nbeside\nparent\n"
    inside do
      beside = go { sleep 0.1; puts "beside" }
      sleep 0.002
      Process.wait(fork { puts "child"; sleep 0.02 })
      finish(beside)
      puts "parent"
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
    thread = Thread.new { NB.run { scheduler = Fiber.scheduler; sleep 0.2 } }
    sleep 0.01 until scheduler
    Process.wait(fork do
      scheduler.kernel_sleep(0.01)
      p :no_error
    rescue NB::Error => error
      p [[NB::ForkedError, NB::WrongThreadError].include?(error.class), error.message.size > 20]
    end)
    thread.join
  RUBY

  script "daemon, spawn and popen of a fork inside", <<~'RUBY', out: "from the child\nspawned\n"
    inside do
      IO.popen("-") { |io| io ? puts(io.read) : (sleep(0.002); print("from the child")) }
      system("echo spawned")
    end
  RUBY

  script "many forks at once", <<~'RUBY', out: "[0, 1, 2, 3, 4, 5, 6, 7]\n", limit: 30
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
