# frozen_string_literal: true

require "socket"
require_relative "../errors"
require_relative "check"
require_relative "forked_child"
require_relative "frames"
require_relative "inheritance"

module NB
  # A forked child that calls one block with the arguments it is sent, one call at a time.
  #
  # Arguments, values and exceptions travel as Marshal data. The block, and everything it refers to,
  # is in the child through the fork. The child ends when our end of the socket closes, even if we
  # die. {ProcessPool} and {NB.in_process} use this class.
  #
  # @api private
  class ForkedWorker
    # No child may be forked while a socket meant for another child is open. It would hold a copy,
    # and nobody would see the end of the stream when that other child dies.
    FORK_LOCK = Thread::Mutex.new
    # Seconds in which a child must report that it has begun, and how many children are tried. On
    # Ruby 3.4.5 a child forked beside other threads may hang before it reaches any Ruby code
    # (ruby/ruby#12981).
    BIRTH_SECONDS, BIRTHS = 10, 3
    private_constant :FORK_LOCK, :BIRTH_SECONDS, :BIRTHS

    # Runs the block in a child of its own; see {NB.in_process}.
    #
    # @return [Object] the value of the block
    # @raise [Exception] as {#call}
    def self.run(&block)
      Check.block("NB.in_process", block)
      worker = new(&Inheritance.wrap(block))
      worker.start
      worker.call([])
    ensure
      begin
        worker&.close
      ensure
        worker&.close # interrupted before the first
      end
    end

    # @return [Integer, nil] process id; nil before {#start}
    attr_reader :pid

    # Has no child yet. The caller keeps a reference before there is a process that could be lost.
    #
    # @yield in the child, for each {#call}
    def initialize(&work) = @work = work

    # Forks the child.
    #
    # @return [void]
    # @raise [Errno::EAGAIN, Errno::ENOMEM, Errno::EMFILE] if there can be no more processes
    # @scheduling waits only while another thread forks
    # @thread any
    def start
      parent = Process.pid
      FORK_LOCK.synchronize do
        @sockets = UNIXSocket.pair # kept as soon as there are two
        @frames, theirs = @sockets.map { |socket| Frames.new(socket) }
        Thread.handle_interrupt(UNINTERRUPTED) { @pid = Process.fork } # with others' hooks
        theirs.close if @pid
      end
      whole = true
    ensure
      # In the `ensure`, so the child gets here even if another library's fork hook raises in it
      # (async 2.46 does under Fiber.set_scheduler). This never returns in the child.
      become_child if parent && Process.pid != parent
      @sockets&.last&.close unless whole # interrupted before
    end

    # @param arguments [Array] for the block; Marshal must be able to dump them
    # @return [Object] the value of the block
    # @raise [Exception] what the block raised, with the child's backtrace in front of ours
    # @raise [TypeError] if the arguments cannot be marshalled
    # @raise [NB::ProcessError] if the child dies first, or its answer cannot be marshalled
    # @scheduling always waits
    # @thread any, but one at a time
    def call(arguments)
      kind, content, backtrace = load(exchange(dump(arguments)))
      return content if kind == :value

      content.set_backtrace(backtrace + caller)
      raise content
    end

    # @return [Boolean] whether the child waits for a call; asked only between two calls
    # @scheduling never waits
    # @thread any
    def alive?
      return false if @asked || @reaped || !@pid
      return true unless @begun || @frames.wait(0) # it is about to begin

      @begun ||= !@frames.read.nil?
      @begun && @frames.quiet?
    rescue SystemCallError
      false
    end

    # @return [Boolean] whether the child has been waited for, so no more calls are possible
    # @scheduling never waits
    def ended? = @reaped ? true : false

    # Lets the child end, and waits for it. Nothing of it remains.
    #
    # @return [Process::Status, nil] nil if somebody else has waited for it
    # @scheduling always waits
    # @thread any
    def close
      @frames&.finish
      @sockets&.first&.close
      reap if @pid
    end

    # Closes our end of the socket and nothing else: for a process that is not the parent.
    #
    # @return [void]
    # @scheduling never waits
    def abandon = @sockets&.first&.close

    private

    def become_child
      @sockets.first.close
      ForkedChild.new(Frames.new(@sockets.last), &@work).run
    ensure
      Process.exit!(false)
    end

    # A call that did not end cannot be followed by another, which would get its answer.
    def exchange(request)
      @asked = true # until it has answered: a killed child stays silent for a moment
      await_birth unless @begun
      @frames.write(request)
      answer = @frames.read or raise EOFError
      @asked = false
      answer
    rescue EOFError, Errno::EPIPE, Errno::ECONNRESET
      raise ProcessError, "process #{@pid} #{fate} before it answered"
    ensure
      kill unless answer
    end

    # A child that does not begin has not been asked anything: another may take its place.
    def await_birth
      others = BIRTHS - 1
      until @frames.wait(BIRTH_SECONDS)
        raise ProcessError, unborn unless others.positive?

        warn "#{unborn}: making another one"
        others -= 1
        replace
      end
      @frames.read or raise EOFError
      @begun = true
    end

    def unborn
      "process #{@pid} did not begin within #{BIRTH_SECONDS} s (see ruby/ruby#12981)"
    end

    def replace
      kill
      @pid = nil
      @reaped = false
      start
    end

    def fate
      status = close
      return "was waited for by somebody else" unless status
      return "exited with status #{status.exitstatus}" unless status.signaled?

      "was killed by SIG#{Signal.signame(status.termsig)}"
    end

    def kill
      return if @reaped || !@pid

      signal_kill
      close
    end

    def signal_kill
      Process.kill(:KILL, @pid)
    rescue Errno::ESRCH
      nil # somebody else has waited for it
    end

    # Process::Status.wait leaves `$?` alone, which belongs to the program.
    def reap
      return if @reaped

      # Under async 2.23, an interrupted wait can make the next one return nil too early.
      status = Process::Status.wait(@pid) || Process.detach(@pid).value
      @reaped = true
      status
    rescue Errno::ECHILD
      @reaped = true
      nil
    ensure
      # Interrupted: a Ruby thread takes over, so that no zombie stays.
      Process.detach(@pid) unless @reaped
      @reaped = true
    end

    def dump(arguments)
      Marshal.dump(arguments)
    rescue TypeError => error
      raise TypeError, "the arguments cannot be sent to another process: #{error.message}"
    end

    def load(answer)
      Marshal.load(answer)
    rescue ArgumentError, NameError, TypeError => error
      raise ProcessError, "the answer of process #{@pid} cannot be read here: #{error.message}"
    end
  end
end
