# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/script_case"

# NB.run(on_interrupt: :drain): the first signal ends what waits for more work, the second the rest.
class DrainTest < ScriptCase
  # Each tells the parent by its output where it stands; the signals come from inside, when the
  # line before them says that all is in place.
  WORK = <<~'RUBY'
    def signal(name) = Process.kill(name, Process.pid)
    def told = (sleep 0.001 until $told)

    def work(tasks, **options)
      NB.run(on_interrupt: :drain, **options) do
        queue = Queue.new
        queue << 1
        NB.group do |group|
          while (job = NB.until_stop { queue.pop })
            tasks.each { |task| group.async(&task) }
          end
          puts "no more, #{NB.stopping?}"
          $told = true
        end
        :value
      end
    end
  RUBY

  %w[INT TERM].each do |name|
    script "the first #{name} lets what runs end", WORK + <<~RUBY, out: "no more, true\nended\n:value\nfalse\n", only: :fibers
      p work([-> { sleep 0.01; signal("#{name}"); told; puts "ended" }])
      p NB.stopping?
    RUBY
  end

  script "the second interrupts", WORK + <<~'RUBY', out: "no more, true\nensured\nInterrupt\n", only: :fibers
    task = lambda do
      sleep(0.01) && signal("INT")
      told || signal("INT")
      sleep
    ensure
      puts "ensured"
    end
    begin
      work([task])
    rescue Interrupt => error
      p error.class
    end
  RUBY

  script "so does the end of the time", WORK + <<~'RUBY', out: "no more, true\nensured\nSIGTERM\n", only: :fibers
    task = lambda do
      sleep(0.01) && signal("TERM")
      sleep
    ensure
      puts "ensured"
    end
    begin
      work([task], drain_timeout: 1)
    rescue SignalException => error
      puts error.message
    end
  RUBY

  CHILD = <<~'RUBY'
    def child
      reader, writer = IO.pipe
      pid = fork do
        writer.puts("there")
        sleep 10
      rescue Interrupt
        writer.puts("ended")
      end
      writer.close
      reader.gets
      Process.kill(:INT, pid)
      puts reader.read
      Process.wait(pid)
    end
  RUBY

  script "a forked child ends by its first signal", CHILD + <<~'RUBY', out: "ended\nfalse\n", only: :fibers
    NB.run(on_interrupt: :drain) { child }
    p NB.stopping?
  RUBY

  script "a forked child calls the handler that there was before", CHILD + <<~'RUBY', out: "handled\n\n", only: :fibers
    trap(:INT) { $stderr.flush; $stdout.puts("handled"); exit! }
    NB.run(on_interrupt: :drain) { child }
  RUBY

  script "a child that is forked while its parent stops is told nothing", <<~'RUBY', out: "[false, 1]\ntrue\n", only: :fibers
    NB.run(on_interrupt: :drain) do
      Process.kill(:INT, Process.pid)
      sleep 0.001 until NB.stopping?
      Process.wait(fork { p [NB.stopping?, NB.until_stop { 1 }] })
      p NB.stopping?
    end
  RUBY

  script "a shield is left first", WORK + <<~'RUBY', out: "no more, true\nsent\nmarked\ninterrupted\n", only: :fibers
    task = lambda do
      NB.shield do
        sleep(0.01) && signal("INT")
        told || signal("INT")
        puts "sent"
        sleep 0.05
        puts "marked"
      end
      puts "never"
    end
    begin
      work([task])
    rescue Interrupt
      puts "interrupted"
    end
  RUBY

  BUSY = <<~'RUBY'
    def busy(seconds)
      stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
      nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop
    end

    def computing(*signals, **options)
      NB.run(**options) do
        NB.shield { signals.each { |name| busy(0.02); Process.kill(name, Process.pid) }; busy(0.02); puts "whole" }
        sleep
      end
    rescue Interrupt
      puts "interrupted"
    end
  RUBY

  script "a signal strikes a shield that computes as it strikes all of Ruby, but not where it is looked after", BUSY + <<~'RUBY', out: "interrupted\nwhole\ninterrupted\ninterrupted\n", only: :fibers
    computing(:INT)
    computing(:INT, :INT, on_interrupt: :drain)
    computing(:INT, :INT, :INT, on_interrupt: :drain)
  RUBY

  script "a second signal takes nothing from the bound of a shield, nor a turn of a limiter", <<~'RUBY', out: "[true, true, 0]\n" * 2, only: :fibers
    def two_signals_when_asleep
      parent = Process.pid
      reader, $asleep = IO.pipe
      fork do
        $asleep.close
        reader.read(1)
        2.times { sleep(0.05) && Process.kill(:INT, parent) }
        exit!
      end
    end
    [{}, { on_interrupt: :drain, drain_timeout: 0 }].each do |options|
      turns = NB::Limiter.new(1)
      two_signals_when_asleep
      start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      begin
        NB.run(**options) { turns.with { NB.shield(0.2) { asleep && sleep(15) } } }
      rescue Interrupt
        took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
      end
      Process.wait
      p [took >= 0.25, took < 10, turns.stats[:running]]
    end
  RUBY

  script "fibers beside the block are let end, then cancelled", <<~'RUBY', out: "block\ntrue\nensured\ninterrupted\n", only: :fibers
    begin
      NB.run(on_interrupt: :drain) do
        NB.async do
          sleep(0.02) && Process.kill(:INT, Process.pid)
          sleep 0.001 until NB.stopping?
          p true
          Process.kill(:INT, Process.pid)
          sleep
        ensure
          puts "ensured"
        end
        puts "block"
      end
    rescue Interrupt
      puts "interrupted"
    end
  RUBY

  script "uncaught, it is the end that Ruby knows", <<~'RUBY', out: "", status: :TERM, only: :fibers
    NB.run(on_interrupt: :drain, drain_timeout: 0) { Process.kill(:TERM, Process.pid); sleep }
  RUBY

  script "nested and several: each wait ends", <<~'RUBY', out: "[nil, :outer, nil, :whole]\n", only: :fibers
    p(NB.run(on_interrupt: :drain) do
      one = NB.async { [NB.until_stop { NB.until_stop { sleep } && :never }, :outer] }
      two = NB.async { NB.until_stop { sleep } }
      three = NB.async { sleep(0.03) && :whole }
      sleep 0.01
      Process.kill(:INT, Process.pid)
      [*one.value, two.value, three.value]
    end)
  RUBY

  script "after the signal nothing more is waited for", <<~'RUBY', out: "[nil, true]\n", only: :fibers
    p(NB.run(on_interrupt: :drain) do
      Process.kill(:INT, Process.pid)
      sleep 0.01 until NB.stopping?
      [NB.until_stop { raise "begun" }, NB.stopping?]
    end)
  RUBY

  script "a signal that comes while the wait begins ends it", <<~'RUBY', out: "nil\n", only: :fibers
    NB::Scheduler.prepend(Module.new { def timeout_after(...) = sleep(0.05) && super })
    p(NB.run(on_interrupt: :drain) do
      Process.kill(:INT, Process.pid)
      NB.until_stop { sleep }
    end)
  RUBY

  script "a value that has come is not lost", <<~'RUBY', out: "[1, nil]\n", only: :fibers
    p(NB.run(on_interrupt: :drain) do
      queue = Queue.new
      waiter = NB.async { Array.new(2) { NB.until_stop { queue.pop } } }
      queue << 1
      Process.kill(:INT, Process.pid)
      waiter.value
    end)
  RUBY

  script "without a signal nothing changes, and the old handlers are back", <<~'RUBY', out: "[:value, 7]\nold\n[ArgumentError, true]\n"
    old = trap("INT") { puts "old" }
    keywords = PLAIN ? {} : { on_interrupt: :drain }
    value = PLAIN ? [:value, 7] : NB.run(**keywords) { [:value, NB.until_stop { sleep(0.001) && 7 }] }
    p value
    Process.kill(:INT, Process.pid)
    sleep 0.05
    error = PLAIN ? ArgumentError.new(":drain") : (begin; NB.run(on_interrupt: :exit) { nil }; rescue => e; e; end)
    p [error.class, error.message.include?(":drain")]
  RUBY

  NB_RUN = "#{RbConfig.ruby} -I#{File.expand_path("../../lib", __dir__)} " \
           "#{File.expand_path("../../exe/nb", __dir__)} run --on-interrupt drain --drain-timeout=9".freeze

  script "nb run has the same words", <<~RUBY, out: "nil\nended\ntrue\n", only: :fibers
    code = %q(Process.kill(:TERM, Process.pid); p NB.until_stop { sleep }; puts :ended)
    p system("#{NB_RUN} -e '\#{code}'")
  RUBY

  script "a program that does not even turn is interrupted", <<~'RUBY', out: "interrupted\n", only: :fibers
    begin
      NB.run(on_interrupt: :drain) do
        3.times { Process.kill(:INT, Process.pid) }
        puts "never"
      end
    rescue Interrupt
      puts "interrupted"
    end
  RUBY
end
# rubocop:enable Layout/LineLength
