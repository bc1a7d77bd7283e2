# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "socket"

# A loop whose fibers always have something to do shares the GVL with the other threads. All is
# measured in CPU time, which a busy machine changes little.
class GVLShareTest < Minitest::Test
  LIMIT = 60
  TURNS = 100
  # CPU seconds of the loop for each. Ruby takes the GVL by itself only after 0.1 s.
  AT_MOST = 0.005

  def setup
    NB.run {} # loads the rest
    @begun = Thread::Queue.new # closed
  end

  def test_a_thread_that_waits_a_little_gets_its_turn
    waiting = Thread.new { @begun.pop || TURNS.times { sleep 0.0001 } }
    assert_operator busy_loop { waiting.alive? }, :<, TURNS * AT_MOST
  end

  def test_a_thread_that_moves_bytes_gets_its_turn
    reader, writer = IO.pipe
    moving = Thread.new { @begun.pop || TURNS.times { writer << "x" && reader.getc } }
    assert_operator busy_loop { moving.alive? }, :<, TURNS * AT_MOST
  end

  def test_a_thread_that_computes_takes_no_more_than_its_part
    computing = Thread.new { nil until Thread.current[:stop] }
    began = [cpu(:PROCESS), cpu(:THREAD)]
    all = mine = 0
    busy_loop do # what comes after is not counted: each closing of a socket lets the thread run
      now = [cpu(:PROCESS), cpu(:THREAD)]
      all, mine = now.zip(began).map { |time, before| time - before } if all < 2
      all < 2
    end
    # Half on a machine that is free. A thread that keeps the GVL for 0.1 s would leave a fiftieth.
    assert_operator mine, :>, all / 15
  ensure
    computing[:stop] = true
    computing.join
  end

  # The thread that watches blocks which compute gets its turn from the fiber that computes.
  def test_a_timeout_that_strikes_meanwhile_is_of_the_fiber_that_lets_others_run
    ended = NB.run do
      NB.async do
        Timeout.timeout(0.02) { loop { Fiber.scheduler.yield } }
      rescue Timeout::Error
        :inside
      end
    end
    assert_equal :inside, ended.value
  end

  # On a fiber that waits, which others may wake meanwhile: it has its turn afterwards.
  def test_a_handler_that_waits_in_the_turn_of_others_loses_no_fiber
    before = trap("USR2") { sleep(0.001) }
    signalling = Thread.new do
      @begun.pop || 100.times { Process.kill("USR2", Process.pid) && 50_000.times.sum }
    end
    NB.run do
      fibers = Array.new(20) { [Thread::Queue.new, Thread::Queue.new] }.flat_map do |one, other|
        [[one, other], [other, one]].map do |mine, its|
          NB.async do
            (its << 1) && mine.pop while signalling.alive?
            its << 1
          end
        end
      end
      @begun.close
      NB.timeout(LIMIT) { fibers.each(&:wait) }
    end
    refute_predicate signalling, :alive?
  ensure
    trap("USR2", before)
  end

  private

  # Runs fibers that always have something to do.
  #
  # @yieldreturn [Boolean] whether to go on
  # @return [Float] CPU seconds of the loop's thread
  def busy_loop(&go_on)
    began = cpu(:THREAD)
    NB.run do
      echoes = Array.new(20) { NB.async { echo(&go_on) } }
      @begun.close
      NB.timeout(LIMIT) { echoes.each(&:wait) }
    end
    cpu(:THREAD) - began
  end

  def echo
    here, there = UNIXSocket.pair
    answering = NB.async { there.write(there.readpartial(9)) until there.closed? }
    here.write("x") && here.readpartial(9) while yield
  ensure
    answering&.cancel
    [here, there].each(&:close)
  end

  def cpu(what) = Process.clock_gettime(Process.const_get("CLOCK_#{what}_CPUTIME_ID"))
end
