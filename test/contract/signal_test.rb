# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/script_case"

# Signals: traps run while everything waits, Interrupt and SIGTERM end the program as without a loop.
class SignalTest < ScriptCase
  script "a trap runs while all wait", <<~'RUBY', out: "trapped\ndone\n"
    trap(:USR1) { puts "trapped" }
    inside do
      go { sleep 0.01; Process.kill(:USR1, Process.pid) }
      sleep 0.05
    end
    puts "done"
  RUBY

  script "a trap runs while the loop waits without an end", <<~'RUBY', out: "trapped\n\"x\"\n"
    reader, writer = IO.pipe
    trap(:USR1) { puts "trapped"; writer.syswrite("x") }
    signal_when_asleep(:USR1)
    p(inside { asleep; reader.read(1) })
  RUBY

  script "a trap may push to a queue that a strand waits for", <<~'RUBY', out: ":usr2\n"
    queue = Queue.new
    trap(:USR2) { queue << :usr2 }
    inside do
      waiting = go { queue.pop }
      Process.kill(:USR2, Process.pid)
      p finish(waiting)
    end
  RUBY

  script "a trap that raises, raises out of the wait", <<~'RUBY', out: "[\"from the trap\", true]\n"
    trap(:USR1) { raise "from the trap" }
    signal_when_asleep(:USR1)
    ensured = false
    message = begin
      inside do
        asleep
        sleep 5
      ensure
        ensured = true
      end
    rescue => error
      error.message
    end
    p [message, ensured]
  RUBY

  script "Interrupt reaches the caller", <<~'RUBY', out: "ensured\nInterrupt\n"
    signal_when_asleep(:INT)
    begin
      inside do
        asleep
        sleep 5
      ensure
        puts "ensured"
      end
    rescue Interrupt => error
      p error.class
    end
  RUBY

  script "Interrupt and SIGTERM are rescued in the code that waits, and it goes on", <<~'RUBY', out: "Interrupt\nSIGTERM\ndone\n"
    inside do
      strand = go { 100.times { sleep 0.002 } }
      %i[INT TERM].each do |name|
        signal_when_asleep(name)
        asleep
        sleep 5
      rescue SignalException => error
        puts error.message.empty? ? error.class : error.message
      end
      finish(strand) && puts("done")
    end
  RUBY

  script "Interrupt is rescued inside an Enumerator and a Fiber, and around them", <<~'RUBY', out: "inside\n5\naround\ndone\n"
    inside do
      signal_when_asleep(:INT)
      inner = Fiber.new do
        asleep
        sleep 5
      rescue Interrupt
        puts "inside"
        5
      end
      p inner.resume
      signal_when_asleep(:INT)
      begin
        Enumerator.new { |items| asleep; sleep 5; items << 1 }.next
      rescue Interrupt
        puts "around"
      end
      finish(go { sleep 0.01; true }) && puts("done")
    end
  RUBY

  script "exit in a trap is rescued in the code that waits", <<~'RUBY', out: "4\nensured\n", status: 5
    trap(:USR1) { exit 4 }
    signal_when_asleep(:USR1)
    inside do
      begin
        asleep
        sleep
      rescue SystemExit => error
        p error.status
      end
      exit 5
    ensure
      puts "ensured"
    end
  RUBY

  script "Timeout around a loop ends what its block waits for", <<~'RUBY', out: "ensured\n[Timeout::Error, 7]\n"
    got = []
    begin
      Timeout.timeout(0.1) do
        inside do
          sleep 5
        ensure
          puts "ensured"
        end
      end
    rescue Timeout::Error => error
      got << error.class
    end
    p [*got, inside { sleep 0.01; 7 }]
  RUBY

  script "Interrupt runs the ensure of every fiber", <<~'RUBY', out: "ensured 1\nensured 2\nensured 3\nInterrupt\n", only: :fibers
    signal_when_asleep(:INT)
    out = []
    begin
      NB.run do
        3.times { |i| Fiber.schedule { begin sleep 5 ensure out << "ensured #{i + 1}" end } }
        asleep
        sleep 5
      end
    rescue Interrupt => error
      puts out.sort, error.class
    end
  RUBY

  script "an uncaught Interrupt ends the process by the signal", <<~'RUBY', out: "", status: :INT, err: /Interrupt/
    signal_when_asleep(:INT)
    inside { asleep; sleep 5 }
  RUBY

  script "SIGTERM ends the process, at_exit and ensure run", <<~'RUBY', out: "ensured\nat exit\n", status: :TERM, err: /SIGTERM|Terminated|/
    at_exit { puts "at exit" }
    signal_when_asleep(:TERM)
    inside do
      asleep
      sleep 5
    ensure
      puts "ensured"
    end
  RUBY

  script "Interrupt while the loop computes", <<~'RUBY', out: "Interrupt\n"
    signal_when_asleep(:INT)
    begin
      inside { asleep; loop { 1 + 1 } }
    rescue Interrupt => error
      p error.class
    end
  RUBY

  # What it comes to is the wait of the block, which may go on; the other fibers do not notice.
  script "Interrupt can be rescued where it is waited", <<~'RUBY', out: "[Interrupt, true]\n:woken\n"
    signal_when_asleep(:INT)
    inside do
      other = go { sleep 0.2; :woken }
      begin
        asleep
        sleep 5
      rescue Interrupt => error
        p [error.class, error.backtrace.any? { |line| line.include?("in 'Kernel#sleep'") || line.include?("in `sleep'") }]
      end
      p finish(other)
    end
  RUBY

  script "an error of a thread with abort_on_exception can be rescued", <<~'RUBY', out: "[IOError, \"of the thread\", \"fail_here\"]\n:next\n"
    def fail_here = raise(IOError, "of the thread")
    Thread.abort_on_exception = true
    Thread.report_on_exception = false
    inside do
      begin
        Thread.new { sleep 0.02; fail_here }
        sleep 5
      rescue IOError => error
        p [error.class, error.message, error.backtrace.first[/fail_here/]]
      end
      sleep 0.02
      p :next
    end
  RUBY

  script "an error of a thread that is joined is raised once", <<~'RUBY', out: "\"of the thread\"\n:next\n"
    Thread.abort_on_exception = true
    Thread.report_on_exception = false
    inside do
      begin
        Thread.new { sleep 0.02; raise IOError, "of the thread" }.join
      rescue IOError => error
        p error.message
      end
      3.times { sleep 0.01 }
      p :next
    end
  RUBY

  script "exit of a thread comes to the block", <<~'RUBY', out: "[SystemExit, 3]\nensured\n", status: 4
    inside do
      begin
        Thread.new { sleep 0.02; exit 3 }
        sleep 5
      rescue SystemExit => error
        p [error.class, error.status]
      end
      Thread.new { sleep 0.02; exit 4 }
      begin
        sleep 5
      ensure
        puts "ensured"
      end
    end
  RUBY

  script "SIGCHLD traps and Process.wait together", <<~'RUBY', out: "[true, 3]\n"
    seen = false
    trap(:CHLD) { seen = true }
    inside do
      pid = spawn("sleep 0.02; exit 3")
      Process.wait(pid)
      sleep 0.005
      p [seen, $?.exitstatus]
    end
  RUBY

  script "many signals while fibers wake", <<~'RUBY', out: "true\n", limit: 30
    count = 0
    trap(:USR1) { count += 1 }
    inside do
      go { 50.times { Process.kill(:USR1, Process.pid); sleep 0.001 } }
      20.times { sleep 0.005 }
    end
    p count.between?(10, 50)
  RUBY

  script "Thread#raise reaches the caller of the block", <<~'RUBY', out: "[ArgumentError, \"from outside\", true]\n"
    ensured = false
    thread = Thread.new do
      inside { begin sleep 5 ensure ensured = true end }
    rescue ArgumentError => error
      [error.class, error.message]
    end
    sleep 0.05
    thread.raise(ArgumentError, "from outside")
    p [*thread.value, ensured]
  RUBY

  script "Thread#kill ends a thread that runs a loop", <<~'RUBY', out: "[true, false]\n"
    ensured = false
    thread = Thread.new { inside { begin sleep 5 ensure ensured = true end } }
    sleep 0.05
    thread.kill
    thread.join(5)
    p [ensured, thread.alive?]
  RUBY

  script "Thread#wakeup of the loop's thread wakes no fiber wrongly", <<~'RUBY', out: "true\n", only: :fibers
    thread = Thread.new { NB.run { t = Process.clock_gettime(1); sleep 0.1; Process.clock_gettime(1) - t >= 0.1 } }
    5.times { sleep 0.01; thread.wakeup }
    p thread.value
  RUBY
end
# rubocop:enable Layout/LineLength
