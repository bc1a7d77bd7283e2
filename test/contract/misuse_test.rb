# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/script_case"

# Wrong arguments and wrong moments: a clear error with the value and what is allowed.
class MisuseTest < ScriptCase
  SHOW = <<~'RUBY'
    def show(*words)
      value = yield
      puts "no error: #{value.inspect}"
    rescue Exception => error
      missing = words.reject { |word| error.message.include?(word) }
      puts missing.empty? ? error.class : "#{error.class} without #{missing}: #{error.message}"
    end
  RUBY

  script "an unknown backend", SHOW + <<~'RUBY', out: "ArgumentError\n" * 3, only: :fibers
    show("nonsense", *NB::Native.backends) { NB::Scheduler.new(backend: :nonsense) }
    show("42", *NB::Native.backends) { NB::Scheduler.new(backend: 42) }
    show(NB::Native.backends.first) { NB::Scheduler.new(backend: "") }
  RUBY

  # Its caller would go on in the middle of the block.
  script "NB.run in a fiber entered by transfer", SHOW + <<~'RUBY', out: "FiberError\nFiberError\n2\n3\n", only: :fibers
    first = Fiber.current
    [true, false].each do |blocking|
      Fiber.new(blocking: blocking) do
        show("transfer", "#resume") { NB.run { NB.async { sleep 0.001 } } }
        first.transfer
      end.transfer
    end
    Fiber.new { p NB.run { NB.async { sleep(0.001) && 2 }.value } }.resume
    Fiber.new { first.transfer }.transfer
    p NB.run { NB.async { sleep(0.001) && 3 }.value }
  RUBY

  # There it is the first fiber.
  script "NB.run in a child forked by such a fiber, and in its child and its thread", <<~'RUBY', out: "4\n" * 5, only: :fibers
    first = Fiber.current
    child = -> { Process.wait(fork { p NB.run { NB.async { sleep(0.001) && 4 }.value } }) }
    Fiber.new { child.call && first.transfer }.transfer
    Fiber.new { child.call }.resume
    NB.run { NB.async { child.call }.wait }
    Fiber.new { Process.wait(fork { child.call }) && first.transfer }.transfer
    Fiber.new { Process.wait(fork { Thread.new(&child).join }) && first.transfer }.transfer
  RUBY

  script "an unknown NB_BACKEND lists the known", SHOW + <<~'RUBY', out: "ArgumentError\n", only: :fibers
    source = "begin; NB.run { }; rescue ArgumentError => error; print error.message; end"
    said = IO.popen({ "NB_BACKEND" => "kqueues" }, [Gem.ruby, "-I", $:.first, "-rneverblock", "-e", source], &:read)
    show("kqueues", "NB_BACKEND", *NB::Native.backends) { raise ArgumentError, said }
  RUBY

  script "NB_BACKEND chooses, the argument is stronger", <<~'RUBY', out: "true\ntrue\n", only: :fibers
    p NB::Scheduler.new.stats[:backend].to_s == ENV["NB_BACKEND"]
    all = NB::Native.backends
    other = all.rotate(all.index(ENV.fetch("NB_BACKEND")) + 1).first.to_sym
    p NB::Scheduler.new(backend: other).stats[:backend].to_s == other.to_s
  RUBY

  script "unknown options", SHOW + <<~'RUBY', out: "ArgumentError\nArgumentError\n", only: :fibers
    show("colour") { NB::Scheduler.new(colour: 1) }
    show { NB::Scheduler.new(1) }
  RUBY

  script "times that are none", SHOW + <<~'RUBY', out: "ArgumentError\nTypeError\nTypeError\n", only: :fibers
    NB.run do
      s = Fiber.scheduler
      show("negative") { s.kernel_sleep(-1) }
      show { s.kernel_sleep("x") }
      show { s.block(:x, Object.new) }
    end
  RUBY

  script "events that are none", SHOW + <<~'RUBY', out: "ArgumentError\nTypeError\nTypeError\n", only: :fibers
    NB.run do
      r, = IO.pipe
      show { Fiber.scheduler.io_wait(r, 0, nil) }
      show { Fiber.scheduler.io_wait(r, "x", nil) }
      show { Fiber.scheduler.io_wait(Object.new, 1, nil) }
    end
  RUBY

  script "fiber_interrupt of what is no fiber, with what is no exception", SHOW + <<~'RUBY',
    NB.run do
      show { Fiber.scheduler.fiber_interrupt(Object.new, RuntimeError.new) }
      fiber = Fiber.schedule { sleep 0.002 }
      show { Fiber.scheduler.fiber_interrupt(fiber, Object.new) }
    end
  RUBY
         out: "TypeError\nTypeError\n", only: :fibers

  script "unblock of what is no fiber", SHOW + <<~'RUBY', out: "TypeError\n", only: :fibers
    NB.run { show { Fiber.scheduler.unblock(nil, Object.new) } }
  RUBY

  script "a hook outside any fiber of the loop", SHOW + <<~'RUBY', out: "NB::WrongThreadError\n", only: :fibers
    NB.run do
      scheduler = Fiber.scheduler
      Thread.new { show { scheduler.kernel_sleep(0.001) } }.join
    end
  RUBY

  script "use after close", SHOW + <<~'RUBY', out: "NB::ClosedError\n" * 4, only: :fibers
    scheduler = NB::Scheduler.new
    Thread.new { Fiber.set_scheduler(scheduler); Fiber.schedule { sleep 0.001 } }.join
    r, = IO.pipe
    show { scheduler.kernel_sleep(0.001) }
    show { scheduler.io_wait(r, 1, 0.001) }
    show { scheduler.fiber { } }
    show { Fiber.set_scheduler(scheduler); Fiber.schedule { sleep 0.001 } }
    exit!(0)
  RUBY

  script "closed by one of its fibers", SHOW + <<~'RUBY', out: "FiberError\n" * 6 + "met\n" * 2, only: :fibers
    met = Array.new(2) do
      NB.run do
        [0, 0.001].each do |time|
          NB.async { sleep(time) && show { Fiber.set_scheduler(nil) } }.wait
        end
        show { Fiber.new(blocking: true) { Fiber.set_scheduler(nil) }.resume }
        queue = Queue.new
        NB.async { queue << "met" }
        queue.pop
      end
    end
    puts met
  RUBY

  script "close twice, and unblock after close", <<~'RUBY', out: "ok\n", only: :fibers
    scheduler = fiber = nil
    Thread.new { Fiber.set_scheduler(scheduler = NB::Scheduler.new); fiber = Fiber.schedule { sleep 0.001 } }.join
    scheduler.close
    scheduler.unblock(nil, fiber)
    puts "ok"
  RUBY

  script "a scheduler that was never set", SHOW + <<~'RUBY', out: "true\ntrue\n", only: :fibers
    scheduler = NB::Scheduler.new
    p scheduler.stats.is_a?(Hash)
    scheduler.close
    p scheduler.closed?
  RUBY

  script "one scheduler for two threads", SHOW + <<~'RUBY', out: "NB::WrongThreadError\n", only: :fibers
    scheduler = NB::Scheduler.new
    gate, set = Queue.new, Queue.new
    first = Thread.new { Fiber.set_scheduler(scheduler); Fiber.schedule { (set << 1) && gate.pop } }
    set.pop
    Thread.new { show { Fiber.set_scheduler(scheduler); Fiber.schedule { sleep 0.001 } } }.join(10)
    gate << 1
    first.join(10)
    exit!(0)
  RUBY

  script "what needs no loop, without one", <<~'RUBY', out: "[1, 2, :three]\n[nil, nil, false]\n", only: :fibers
    p [NB.await { |resume| resume.call(1) }, NB.offload { 2 }, NB.blocking { :three }]
    p [NB.stats, NB.dump, NB.running?]
  RUBY

  script "NB errors are NB::Error and what plain Ruby rescues", <<~'RUBY', out: "true\n", only: :fibers
    p [NB::ClosedError, NB::WrongThreadError, NB::ForkedError, NB::NoSchedulerError, NB::DeadlockError,
       NB::Cancelled, NB::PoolTimeoutError, NB::QueueFullError].all? { |error| error < NB::Error }
  RUBY

  script "requiring it changes no class of IO and sockets", <<~'RUBY', out: "true\ntrue\ntrue\n", only: :fibers
    names = ObjectSpace.each_object(Class).select { |c| c <= IO || c < Addrinfo || c == Addrinfo }.map(&:name).compact.sort
    source = "require 'socket'; puts %w[#{names.join(" ")}].map { |n| [n, Object.const_get(n).ancestors.reject { |a| a.to_s.start_with?('NB') }] }.inspect"
    plain = IO.popen([Gem.ruby, "-rtimeout", "-e", source], &:read)
    ours = names.map { |n| [n, Object.const_get(n).ancestors.reject { |a| a.to_s.start_with?("NB") }] }.inspect
    p plain.chomp == ours
    p [IO, BasicSocket, IPSocket, TCPSocket, TCPServer, UDPSocket, UNIXSocket, UNIXServer, Socket].each_cons(2).count == 8
    p [TCPServer.superclass, TCPSocket.superclass, IPSocket.superclass, BasicSocket.superclass, UNIXServer.superclass] ==
      [TCPSocket, IPSocket, BasicSocket, IO, UNIXSocket]
  RUBY
end
# rubocop:enable Layout/LineLength
