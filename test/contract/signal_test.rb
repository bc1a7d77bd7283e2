# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/script_case"

# Signals: traps run while everything waits, Interrupt and SIGTERM end the program as without a loop.
class SignalTest < ScriptCase
  script "a trap runs while all wait", <<~'RUBY', out: "trapped\ndone\n"
    trap(:USR1) { puts "trapped" }
    inside do
      killing = go { sleep 0.01; Process.kill(:USR1, Process.pid) }
      sleep 0.05
      finish(killing)
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

  script "a trap throws while the loop looks at the threads", <<~'RUBY', out: "[:thrown]\n", only: :fibers
    trap(:USR1) { throw :out, :thrown if Thread.current[:catching] }
    hold = Queue.new
    other = Thread.new { hold.pop }
    other.define_singleton_method(:inspect) { super().tap { Process.kill(:USR1, Process.pid) } }
    values = []
    NB.run do
      ended = Queue.new
      NB.async do
        sleep 0 # the block waits first, so that this fiber sleeps for all
        values << catch(:out) { Thread.current[:catching] = true; Queue.new.pop }
        Thread.current[:catching] = false
        ended << true
      end
      ended.pop
    end
    hold << true
    other.join
    p values
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

  { "a sleep" => "sleep 5", "a read" => "IO.pipe.first.read(1)", "a join" => "Thread.new { sleep 5 }.join" }.each do |name, wait|
    script "a trap that throws, throws out of #{name}, once", <<~RUBY, out: ":thrown\n:ensured\n:on\n"
      trap(:USR1) { throw :out, :thrown }
      signal_when_asleep(:USR1)
      inside do
        p(catch(:out) do
          asleep
          #{wait}
        ensure
          @ensured = :ensured
        end)
        p @ensured
        sleep 0.01
        p :on
      end
    RUBY
  end

  script "a trap throws out of the block, and what nobody catches is an error", <<~'RUBY', out: ":outside\n\"uncaught throw :nowhere\"\n"
    trap(:USR1) { throw :out, :outside }
    signal_when_asleep(:USR1)
    p(catch(:out) { inside { asleep && sleep(5) } })
    trap(:USR1) { throw :nowhere }
    signal_when_asleep(:USR1)
    inside do
      asleep && sleep(5)
    rescue UncaughtThrowError => error
      p error.message
    end
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

  # The strand sleeps all the while: a signal that met it in Ruby would be raised there.
  script "Interrupt and SIGTERM are rescued in the code that waits, and it goes on", <<~'RUBY', out: "Interrupt\nSIGTERM\ndone\n"
    inside do
      strand = go { sleep 0.4; true }
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

  # Before Ruby 3.3 whoever sleeps looks at the other threads now and then.
  script "signals come to the code that called, though another strand sleeps and a thread is there", <<~'RUBY', out: ("Interrupt\nSIGTERM\n\"of the trap\"\n" * 3)
    Thread.new { sleep }
    trap(:USR1) { raise "of the trap" }
    inside do
      strand = go do
        sleep 0.003
        loop { sleep 0.15 }
      rescue Exception => error
        puts "another strand: #{error.inspect}"
      end
      %i[INT TERM USR1].cycle(3) do |name|
        signal_when_asleep(name)
        asleep
        sleep 5
      rescue SignalException => error
        puts error.message.empty? ? error.class : error.message
      rescue => error
        p error.message
      end
      exit!(true)
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
    got, limit, begun = [], 0.5, false
    begin
      Timeout.timeout(limit) do
        inside do
          begun = true
          sleep 60
        ensure
          puts "ensured" if begun
        end
      end
    rescue Timeout::Error => error
      (limit *= 2) && retry unless begun # the machine is slow
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
    signal_when(:INT) { nil }
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

  # It is raised in whatever the loop's own code calls at that moment.
  script "a signal before the loop's first turn can be rescued", <<~'RUBY', out: "Interrupt\n", only: :fibers
    PLAIN_PID = Process.method(:pid)
    def Process.pid
      return PLAIN_PID.call unless $strikes

      $strikes = false
      raise Interrupt
    end
    inside do
      $strikes = true
      sleep 5
    rescue Interrupt => error
      p error.class
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
      begin
        Thread.new { sleep 0.02; exit 4 }
        sleep 5
      ensure
        puts "ensured"
      end
    end
  RUBY

  script "a trap that waits in a fiber that waits: both waits end", <<~'RUBY', out: (":in\n\"x\"\n:slept\n[1, true]\n" * 2), only: :fibers
    queue = Queue.new
    early = true # whether the outer wait is woken before the inner one
    trap(:USR1) do
      reader, writer = IO.pipe
      p :in
      first = early
      Thread.new { queue << 1 if first; sleep 0.02; writer << "x"; sleep 0.05; queue << 1 unless first }
      p reader.read(1)
      sleep 0.01
      p :slept
    end
    Fiber.set_scheduler(NB::Scheduler.new) # without NB.run, which takes signals: they come to who sleeps
    waiting = Fiber.new(blocking: false) do
      2.times do
        signal_when_asleep(:USR1)
        asleep
        p [queue.pop, Fiber.scheduler.waits.empty?]
        early = false
      end
    end
    waiting.resume
    Fiber.scheduler.run while waiting.alive?
  RUBY

  script "a timeout ends a trap's wait, then that of its fiber", <<~'RUBY', out: "Timeout::Error\n[nil, true]\n", only: :fibers
    trap(:USR1) do
      Timeout.timeout(0.01) { sleep }
    rescue Timeout::Error => error
      p error.class
    end
    Fiber.set_scheduler(NB::Scheduler.new)
    waiting = Fiber.new(blocking: false) do
      signal_when_asleep(:USR1)
      asleep
      start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      reader, = IO.pipe
      p [reader.wait_readable(1), Process.clock_gettime(Process::CLOCK_MONOTONIC) - start >= 1]
    end
    waiting.resume
    Fiber.scheduler.run while waiting.alive?
  RUBY

  script "SIGCHLD traps and Process.wait together", <<~'RUBY', out: "[true, 3]\n"
    seen = false
    trap(:CHLD) { seen = true }
    inside do
      pid = spawn("sleep 0.02; exit 3")
      Process.wait(pid)
      1000.times { seen ? break : sleep(0.005) }
      p [seen, $?.exitstatus]
    end
  RUBY

  script "many signals while fibers wake", <<~'RUBY', out: "true\n"
    count = 0
    trap(:USR1) { count += 1 }
    inside do
      killing = go { 50.times { Process.kill(:USR1, Process.pid); sleep 0.001 } }
      20.times { sleep 0.005 }
      finish(killing)
    end
    p count.between?(10, 50)
  RUBY

  script "Thread#raise reaches the caller of the block", <<~'RUBY', out: "[ArgumentError, \"from outside\", true]\n"
    ensured = false
    begun = Queue.new
    thread = Thread.new do
      inside { begin begun << 1; sleep 5 ensure ensured = true end }
    rescue ArgumentError => error
      [error.class, error.message]
    end
    begun.pop
    sleep 0.05
    thread.raise(ArgumentError, "from outside")
    p [*thread.value, ensured]
  RUBY

  script "each of several Thread#raise arrives, one per wait", <<~'RUBY', out: "[[1, 2, 3], [1, 2, 3]]\n"
    work = lambda do |queue, first|
      Array.new(3) do |index|
        queue << true if index.zero?
        index.zero? ? first.call : sleep
      rescue IOError => error
        Integer(error.message)
      end
    end
    strike = lambda do |first|
      queue = Queue.new
      thread = Thread.new { inside { sleep 0.001; work.call(queue, first) } }
      queue.pop
      sleep 0.05
      3.times { |index| thread.raise(IOError, (index + 1).to_s) }
      thread.value
    end
    p [strike.call(-> { sleep }), strike.call(-> { loop {} })]
  RUBY

  script "what a thread raises in its joiner before it ends comes out of the join", <<~'RUBY', out: "[20, true]\n"
    inside do
      joiner = Thread.current
      raised = Array.new(20) do
        queue = Queue.new
        thread = Thread.new { queue.pop and joiner.raise(KeyError, "mine") }
        begin
          queue << true
          thread.join && :nothing
        rescue KeyError => error
          thread.join
          error.message
        end
      end
      p [raised.count("mine"), (sleep(0.001) && true)]
    end
  RUBY

  script "Thread#kill ends a thread that runs a loop", <<~'RUBY', out: "[true, false]\n"
    ensured = false
    begun = Queue.new
    thread = Thread.new { inside { begin begun << 1; sleep 5 ensure ensured = true end } }
    begun.pop
    sleep 0.05
    thread.kill
    thread.join(5)
    p [ensured, thread.alive?]
  RUBY

  %i[wakeup run].each do |name|
    script "Thread##{name} ends a sleep of the block, of a time or not", <<~RUBY, out: "[true, true, true, true]\n"
      started = Queue.new
      thread = Thread.new do
        inside do
          waits = [-> { sleep 5 }, -> { sleep }, -> { Mutex.new.tap(&:lock).sleep(5) },
                   -> { Enumerator.new { |items| sleep(5) && items << 1 }.next }]
          waits.map { |wait| t = Process.clock_gettime(1); started << 1; wait.call; Process.clock_gettime(1) - t < 4 }
        end
      end
      4.times { started.pop; Thread.pass until thread.stop?; sleep 0.05; thread.#{name} }
      p thread.value
    RUBY
  end

  script "Thread#wakeup ends no other wait, and no other fiber's sleep", <<~'RUBY', out: "[true, 1, 2]\n"
    queue = Queue.new
    reader, writer = IO.pipe
    thread = Thread.new do
      inside do
        strand = go { t = Process.clock_gettime(1); sleep 0.1; Process.clock_gettime(1) - t >= 0.1 }
        [finish(strand), queue.pop, reader.read(1).to_i]
      end
    end
    5.times { sleep 0.01; thread.wakeup }
    sleep 0.2
    thread.wakeup
    queue << 1
    sleep 0.05
    thread.wakeup
    writer << "2"
    p thread.value
  RUBY
end
# rubocop:enable Layout/LineLength
