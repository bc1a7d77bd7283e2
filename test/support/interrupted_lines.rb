# frozen_string_literal: true

require_relative "interrupted_run"

# A point is a line of lib/neverblock/sync that the victim reaches, or a return from a method or
# block there: the places between two calls of Ruby's. In plain threads, or in a loop.
class InterruptedLines < InterruptedRun
  # :raise is Thread#raise, which a mask holds back; :handler is what a signal handler raises.
  LIMIT = 60 # seconds
  RAISES = { raise: Strike, handler: Strike }.freeze

  # @return [self]
  def run_in_threads
    prepare(1)
    beside_servers_in_thread do
      strands = names.map { |name| thread(name) }
      strands.all? { |one| one.join(LIMIT) } ? judge : @wrong << "hangs"
    rescue Exception => error # rubocop:disable Lint/RescueException -- a deadlock
      @wrong << error.message
    ensure
      (strands || []).each(&:kill).each(&:join)
    end
    self
  end

  # @param backend [Symbol]
  # @return [self]
  def run_in_loop(backend)
    NB.run(clock: :virtual, backend: backend) do
      prepare(1)
      beside_servers([@kind], processes: 1) do
        gate = Thread::Queue.new
        tasks = names.map do |name|
          NB.async do
            gate.pop unless name == "before"
            name == "victim" ? struck_victim : other(name)
          end
        end
        2.times { gate << true }
        tasks.each(&:wait)
        judge
      end
    end
    self
  rescue NB::DeadlockError, StandardError => error
    @wrong << error.full_message(highlight: false)
    self
  end

  private

  # The next one begins when the one before waits.
  def thread(name)
    thread = Thread.new do
      Thread.current.report_on_exception = false
      name == "victim" ? struck_victim : other(name)
    end
    Thread.pass while thread.alive? && !thread.stop?
    thread
  end

  def beside_servers_in_thread(&block)
    return beside_servers([@kind], processes: 1, &block) unless @kind == :http

    started = Thread::Queue.new
    server = Thread.new do
      NB.run do
        @echo = Echo.new(@random)
        started << @echo
        (@stop = Thread::Queue.new).pop
      end
    end
    started.pop
    yield
  ensure
    server&.kill&.join
  end

  def struck_victim
    me = Fiber.current
    thread = Thread.current
    trace = TracePoint.new(:line, :return, :b_return) do |event|
      next unless OURS.match?(event.path) && Fiber.current.equal?(me) && @tracing

      pass unless forgotten?(event) || last_resort?
    end
    victim do
      @tracing = true
      trace.enable(target_thread: thread)
      send(@kind, owner("victim"))
    ensure
      @tracing = false
      trace.disable
    end
  end

  # Ruby's fork forgets, even in the parent, what a mask has held back.
  def forgotten?(event) = @strikes.value?(:raise) && line(event).include?("Process.fork")
  def line(place) = SOURCES[place.path][place.lineno - 1]

  # A line with this comment repairs what an interrupt may have left. A second interrupt must not
  # strike there: Ruby has no code that nothing can interrupt.
  def last_resort?
    return false if @struck.empty?

    caller_locations.any? do |place|
      OURS.match?(place.path) && line(place).include?("# interrupted")
    end
  end
  SOURCES = Hash.new { |lines, path| lines[path] = File.readlines(path) }

  def strike(how)
    how == :raise ? Thread.current.raise(Strike, "struck") : raise(Strike, "struck")
  end
end
