# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "socket"
require_relative "../support/clock"
require_relative "../support/timing"

# NB.reactor: the same in every fiber of a thread, with callbacks for IOs and timers.
class LegacyReactorTest < Minitest::Test
  include Clock

  def setup = @reactor = NB.reactor

  def test_there_is_one_for_each_thread
    assert_same @reactor, NB.reactor
    assert_same @reactor, Fiber.new { NB.reactor }.resume
    refute_same @reactor, Thread.new { NB.reactor }.value
  end

  def test_it_runs_until_it_is_stopped
    states = [@reactor.running?]
    @reactor.run do |reactor|
      states << reactor.running? << NB.event_loop_available?
      assert_raises(NB::NBError) { reactor.run }
      reactor.next_tick { states << :tick and reactor.stop }
    end
    assert_equal [false, true, true, :tick, false], states << @reactor.running?
  end

  def test_it_may_be_stopped_and_given_work_from_another_thread
    ticks = []
    @reactor.run do
      Thread.new do
        @reactor.next_tick { ticks << Thread.current }
        @reactor.stop
      end
    end
    assert_equal [Thread.current], ticks
  end

  def test_a_server_of_callbacks_and_clients_of_fibers
    server = TCPServer.new("127.0.0.1", 0)
    answers = []
    @reactor.attach(:read, server) do |io, reactor|
      socket = io.accept
      reactor.attach(:read, socket) do
        socket.write(socket.gets)
        reactor.detach(:read, socket)
        socket.close
      end
    end
    @reactor.run do
      NB.map(1..5, concurrency: 5) do |i|
        TCPSocket.open("127.0.0.1", server.local_address.ip_port) do |socket|
          socket.puts(i)
          answers << socket.read
        end
      end
      @reactor.stop
    end
    assert_equal (1..5).map { |i| "#{i}\n" }, answers.sort
    assert @reactor.attached?(:read, server)
  ensure
    @reactor.detach(:read, server)
    refute @reactor.attached?(:read, server)
    server.close
  end

  def test_a_second_callback_waits_for_the_first_or_takes_its_place
    reader, writer = IO.pipe
    writer.write("ab")
    seen = []
    first = lambda do |io, reactor|
      seen << [:first, io.readpartial(1)]
      reactor.detach(:read, io)
    end
    second = lambda do |io, reactor|
      seen << [:second, io.readpartial(1)]
      reactor.detach(:read, io)
      reactor.stop
    end
    @reactor.attach(:read, reader, &first)
    @reactor.attach(:read, reader, &second)
    @reactor.run
    assert_equal [[:first, "a"], [:second, "b"]], seen

    writer.write("c")
    @reactor.attach(:read, reader, &first)
    @reactor.attach(:read, reader, false, &second)
    @reactor.run
    assert_equal [:second, "c"], seen.last
  end

  def test_a_detached_io_calls_nobody
    reader, writer = IO.pipe
    @reactor.run do
      @reactor.attach(:read, reader) { flunk }
      @reactor.detach_all(:read)
      writer.write("x")
      @reactor.add_timer(0.02) { @reactor.stop }
    end
    assert_raises(ArgumentError) { @reactor.attach(:error, reader) { nil } }
  end

  def test_timers_come_in_time_once_or_again_and_again
    start = clock
    times = []
    beats = 0
    @reactor.run do
      @reactor.add_timer(0.03) { times << :never }.cancel
      @reactor.add_timer(0.05) { times << clock - start }
      beat = @reactor.add_periodical_timer(0.01) do
        next unless (beats += 1) == 3

        beat.cancel
        @reactor.add_timer(0.1) { @reactor.stop }
      end
    end
    assert_equal [1, 3], [times.size, beats]
    assert_between 0.05, 1, times.first
  end

  def test_a_timer_that_cancels_itself_runs_to_the_end_of_its_block
    seen = []
    @reactor.run do
      timer = @reactor.add_periodical_timer(0.001) do
        timer.cancel
        seen << :after
        @reactor.add_timer(0.02) { @reactor.stop }
      end
    end
    assert_equal [:after], seen
  end

  def test_a_stop_that_comes_too_late_is_not_for_the_next_run
    @reactor.run { 2.times { @reactor.stop } }
    @reactor.stop
    ran = false
    @reactor.run { @reactor.add_timer(0.001) { (ran = true) && @reactor.stop } }
    assert ran
  end

  def test_an_io_of_the_loop_around_is_watched_once
    reader, writer = IO.pipe
    seen = []
    NB.run do
      @reactor.attach(:read, reader) { |io| seen << io.read_nonblock(1, exception: false) }
      2.times do
        writer.write("x")
        @reactor.run { @reactor.add_timer(0.02) { @reactor.stop } }
      end
      @reactor.detach(:read, reader)
    end
    assert_equal %w[x x], seen
  end

  def test_an_io_with_data_is_attached_again_and_again
    reader, writer = IO.pipe
    seen = []
    @reactor.run do
      3.times do |turn|
        writer.write(turn.to_s)
        @reactor.attach(:read, reader) do |io|
          seen << io.readpartial(9)
          @reactor.detach(:read, io)
        end
        NB.timeout(20) { sleep 0.001 until seen.size > turn }
      end
      @reactor.stop
    end
    assert_equal %w[0 1 2], seen
  end

  def test_an_error_of_a_callback_comes_out_of_run
    ended = false
    error = assert_raises(IOError) do
      @reactor.run do
        @reactor.add_timer(0.01) { raise IOError, "broken" }
        NB.async do
          sleep
        ensure
          ended = true
        end
      end
    end
    assert_equal ["broken", true, false], [error.message, ended, @reactor.running?]
    @reactor.run { @reactor.stop } # and it can run again
  end

  def test_inside_another_loop_it_needs_no_run
    NB.run do
      reader, writer = IO.pipe
      read = NB.await do |resume|
        @reactor.attach(:read, reader) do |io|
          @reactor.detach(:read, io)
          resume.call(io.readpartial(9))
        end
        @reactor.add_timer(0.01) { writer.write("hello") }
      end
      assert_equal "hello", read
    end
  end

  private
end
