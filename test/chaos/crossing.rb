# frozen_string_literal: true

require "socket"
require "timeout"
require_relative "chaos_run"

# Many fibers that speak through connections of their own, share locks and queues, time each other
# out, cancel each other and close what others wait for, whose numbers the next connection gets.
# Every byte, exception, timeout and wake-up carries its owner's name: what comes to another one, is
# lost, or stays behind is written down.
class Crossing < ChaosRun
  # Says for whom it is.
  class Struck < Exception # rubocop:disable Lint/InheritException -- no rescue on the way may see it
    attr_reader :owner

    def initialize(owner)
      @owner = owner
      super("for #{owner}")
    end
  end

  private

  def conduct
    strands = Array.new(8) { |number| strand("talker #{number}") { |owner| talk(owner) } }
    strands.push(strand("locks") { lock_and_signal }, strand("queues") { push_and_pop },
                 strand("timers") { |owner| time(owner) })
    strands.each(&:wait)
  end

  # A task whose errors are written down.
  def strand(owner)
    NB.async do
      yield owner
    rescue Exception => error # rubocop:disable Lint/RescueException -- written down
      @wrong << "#{owner}: #{error.full_message(highlight: false)}"
    end
  end

  # ---- connections ------------------------------------------------------------------------------

  def talk(owner)
    12.times do |turn|
      case @random.rand(8)
      when 0 then closed_under_a_reader(owner)
      when 1 then timed_out(owner)
      when 2 then struck(owner)
      when 3 then closed_under_a_writer(owner)
      when 4 then struck_in_a_queue(owner)
      when 5 then one_way(owner, "#{owner} #{turn}")
      else echo(owner, "#{owner} #{turn}")
      end
    end
  end

  def pair
    case @random.rand(3)
    when 0 then UNIXSocket.pair
    when 1 then tcp_pair
    else Socket.pair(:UNIX, :STREAM).map { |one| one.tap { one.sync = true } }
    end
  end

  def tcp_pair
    server = TCPServer.new("127.0.0.1", 0)
    near = TCPSocket.new("127.0.0.1", server.addr[1])
    [near, server.accept]
  ensure
    server&.close
  end

  def text(name) = "#{name} #{"abcdefghij" * @random.rand(1..400)}\n"

  def with_pair(ios = pair)
    yield(*ios)
  ensure
    ios.each(&:close)
  end

  def echo(owner, name)
    with_pair do |near, far|
      other = strand("echo of #{owner}") do
        while (line = far.gets)
          far.write(line)
        end
        far.close_write
      end
      3.times do |time|
        line = text("#{name} #{time}")
        near.write(line)
        check(owner, line, near.gets)
      end
      near.close_write
      check(owner, nil, near.gets) if @random.rand(2).zero?
      other.wait
    end
  end

  def one_way(owner, name)
    with_pair(IO.pipe) do |reader, writer|
      line = text(name) * 20
      writing = strand("writer of #{owner}") { writer.write(line) && writer.close }
      check(owner, line, reader.read)
      writing.wait
    end
  end

  def closed_under_a_reader(owner)
    near, far = pair
    reading = NB.async do
      far.readpartial(10)
    rescue IOError => error
      error.class
    end
    pause
    far.close
    near.close
    check(owner, true, [IOError, EOFError].include?(reading.value))
  end

  # The number goes to the next connection, which must not see one of these bytes.
  def closed_under_a_writer(owner)
    near, far = UNIXSocket.pair
    writing = NB.async do
      near.write("stray of #{owner} " * 50_000)
    rescue IOError, Errno::EPIPE => error
      error.class
    end
    pause
    far.readpartial(100_000)
    near.close
    echo(owner, "after a close #{owner}")
    far.close
    check(owner, true, [IOError, Errno::EPIPE].include?(writing.value))
  end

  def timed_out(owner)
    mine = Class.new(StandardError)
    with_pair do |near, far|
      got = begin
        Timeout.timeout(0.0005, mine) { near.gets }
      rescue mine
        :timeout
      end
      check(owner, :timeout, got)
      line = text("late #{owner}")
      writing = strand("late writer of #{owner}") { far.write(line) }
      check(owner, line, near.gets)
      writing.wait
    end
  end

  def struck(owner)
    with_pair do |near, far|
      waiting = NB.async { wait_for_a_blow(owner, near) }
      pause
      strike(waiting, owner)
      check(owner, owner, waiting.value)
      far.write("x")
      check(owner, "x", near.read(1))
    end
  end

  def wait_for_a_blow(owner, io)
    @random.rand(2).zero? ? io.gets : sleep
    "nothing for #{owner}"
  rescue Struck => error
    error.owner
  end

  # Two items for three who wait, one of whom is struck: the others do not lose a wake-up by it.
  def struck_in_a_queue(owner)
    queue = Thread::Queue.new
    tasks = Array.new(3) { NB.async { pop_or_be_struck(owner, queue) } }
    pause
    blow = -> { strike(tasks.first, owner) }
    [-> { queue << 1 }, -> { queue << 2 }, blow].shuffle(random: @random).each(&:call)
    got = tasks.first.value
    queue << 3 if got.any?
    check(owner, got.any? ? [1, 2, 3] : [1, 2], (got + tasks.drop(1).flat_map(&:value)).sort)
  end

  def pop_or_be_struck(owner, queue)
    item = queue.pop
    begin
      pause
    rescue Struck => error
      check(owner, owner, error.owner)
    end
    [item]
  rescue Struck => error
    check(owner, owner, error.owner)
    []
  end

  def strike(task, owner)
    @scheduler.fiber_interrupt(task.instance_variable_get(:@fiber), Struck.new(owner))
  end

  # ---- locks, queues, timers --------------------------------------------------------------------

  def lock_and_signal
    mutex, condition = Thread::Mutex.new, Thread::ConditionVariable.new
    items, taken, inside = [], [], 0
    takers = Array.new(3) do |number|
      strand("taker #{number}") do
        10.times do
          mutex.synchronize do
            condition.wait(mutex, [nil, 0.001].sample(random: @random)) while items.empty?
            check("locks", 0, inside)
            inside += 1
            pause
            taken << items.shift
            inside -= 1
          end
        end
      end
    end
    30.times do |item|
      in_thread_or_here { mutex.synchronize { items << item } && condition.signal }
    end
    takers.each(&:wait)
    check("locks", (0...30).to_a, taken.sort)
  end

  def in_thread_or_here(&block)
    @random.rand(3).zero? ? Thread.new(&block).join : block.call
    pause
  end

  def push_and_pop
    full, queue, popped = Thread::SizedQueue.new(2), Thread::Queue.new, []
    threads = Array.new(2) { |one| Thread.new { 15.times { |i| queue << [one, i] } } }
    pushing = strand("pusher") { 30.times { |item| full << item } }
    popping = Array.new(3) do |number|
      strand("popper #{number}") { 10.times { popped << queue.pop } }
    end
    check("queues", (0...30).to_a, Array.new(30) { pause && full.pop })
    [pushing, *popping].each(&:wait)
    threads.each(&:join)
    check("queues", [0, 1].product((0...15).to_a), popped.sort)
  end

  def time(owner)
    20.times do
      seconds = @random.rand * 0.003
      start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      sleep(seconds)
      check(owner, true, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start >= seconds)
      outer, inner = Class.new(StandardError), Class.new(StandardError)
      got = begin
        Timeout.timeout(1, outer) { Timeout.timeout(0.0003, inner) { Thread::Queue.new.pop } }
      rescue inner
        :inner
      end
      check(owner, :inner, got)
    end
  end
end
