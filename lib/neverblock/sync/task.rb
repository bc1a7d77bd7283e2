# frozen_string_literal: true

require "timeout"
require_relative "../error_report"
require_relative "../errors"
require_relative "../legible"
require_relative "check"
require_relative "interruption"
require_relative "task_names"

module NB
  # A fiber that can be waited for and cancelled. {NB.async} and {Group#async} make tasks.
  #
  # The block runs at once until its first wait, as with Fiber.schedule. Any fiber of any thread may
  # wait for the task. If the task fails while nobody waits for it, its error is written to stderr,
  # as with Thread.report_on_exception; a later {#wait} still raises it.
  #
  # Use a {Group} if the tasks should end with the block that started them.
  #
  # @example
  #   task = NB.async { Net::HTTP.get(URI("http://127.0.0.1:8080/")) }
  #   task.value                  # => "..."
  #   NB.async { sleep }.cancel.wait
  class Task
    # Guards the lazy creation of a gate, the only step that two waiting threads could do twice.
    GATE_LOCK = Thread::Mutex.new
    private_constant :GATE_LOCK

    # How many tasks {Task.unseen} keeps.
    UNSEEN = 20

    # Ends a wait with a limit; no other code sees it.
    Late = Class.new(::StandardError)
    private_constant :UNSEEN, :Late

    @report_on_exception = true
    @unseen = []
    @forks = 0

    class << self
      # @return [Boolean] whether new tasks write errors that nobody waits for to stderr
      attr_accessor :report_on_exception

      # @return [Array<Task>] the last 20 tasks that failed and that nobody has waited for
      # @scheduling never waits
      # @thread any
      def unseen = @unseen.dup

      # @return [Integer] how many forks lie between the process that loaded this file and this one
      # @api private
      attr_reader :forks

      # @return [Fiber, nil] the fiber that forked: the only one of the parent's that continues
      # @api private
      attr_reader :survivor

      # In a forked child, only the fiber that forked continues.
      # @api private
      def forked
        @forks += 1
        @survivor = Fiber.current
        @unseen.clear
        TaskNames.forked(@survivor)
      end

      # Keeps a task whose error nobody has seen. Keeps the last 20.
      # @param task [Task]
      # @return [void]
      # @api private
      def failed(task)
        @unseen << task
        @unseen.shift if @unseen.size > UNSEEN
      end

      # Forgets a task that somebody has waited for.
      # @param task [Task]
      # @return [void]
      # @api private
      def seen(task) = @unseen.delete(task)
    end

    # @return [String, nil] free text for {#inspect}, the report of an error, and `nb_tasks` in
    #   /metrics
    attr_reader :name

    # @param name [String, nil] see {#name}
    # @scheduling never waits
    # @thread any
    def name=(name)
      @name = name
      TaskNames.enter(self)
    end

    # @return [Boolean] whether an error that nobody waits for is written to stderr. Set it from
    #   outside, or after the first wait; until then {Task.report_on_exception} decides
    attr_writer :report_on_exception

    # @return [Boolean] whether the loop may end before this task
    # @scheduling never waits
    # @thread any
    def background? = @background ? true : false

    # @return [Boolean] set by {NB.async} and {NB.every}
    # @api private
    attr_writer :background

    # @yield in the new fiber; the block's value becomes {#value}
    # @param group [#task_started, #task_ended, nil] is notified, and takes over the errors
    # @param origin [#call] what the user wrote, if that is not the block: names the line in reports
    # @param name [String, nil] see {#name}
    # @raise [NB::NoSchedulerError] if this thread has no scheduler
    # @raise [FiberError] if the system has no room for another fiber
    # @scheduling never waits, but the block runs until its own first wait
    def initialize(group = nil, origin: nil, name: nil, &block)
      raise ArgumentError, "a task needs a block" unless block

      @scheduler = Fiber.scheduler || raise(NoSchedulerError, "a task needs a scheduler: call it " \
                                                              "inside NB.run { }")
      @block = block
      @origin = origin # nil stands for the block itself
      @name = name
      @forks = Task.forks
      @group = group
      @state = @result = @cancel = @gate = nil
      launch
    end

    # Waits until the task has ended, in whatever way. A cancelled task counts as ended normally.
    #
    # @param timeout [Numeric, nil] seconds, 0 or more; nil: no limit. The task itself continues
    # @return [self, nil] nil if the task has not ended in time, as for Thread#join
    # @raise [Exception] what the block raised
    # @raise [FiberError] if the task waits for itself
    # @raise [NB::ForkedError] in a forked child, for a task that runs in the parent
    # @raise [NB::NoSchedulerError] in a blocking fiber of the task's own thread, where waiting
    #   would stop the loop that runs the task
    # @scheduling may wait
    # @thread any
    def wait(timeout = nil)
      return if alive? && !ended_within?(timeout)

      if @state == :failed
        Task.seen(self)
        raise @result
      end

      self
    end

    # @param timeout [Numeric, nil] as for {#wait}
    # @return [Object] the block's value, after waiting for it
    # @raise [Exception] what the block raised
    # @raise [Timeout::Error] if there is no value in time
    # @raise [NB::TaskCancelledError] if the task was cancelled; see {#cancel}
    # @scheduling may wait
    # @thread any
    def value(timeout = nil)
      wait(timeout) or raise(Timeout::Error, "no value within #{timeout} s: #{inspect}")
      return @result unless @state == :cancelled

      raise TaskCancelledError, "no value: #{inspect} was cancelled", cause: @result
    end

    # Asks the task to end: the current wait of its fiber, or else the next one, raises
    # {NB::Cancelled}, and every `ensure` runs. Returns before that has happened; `cancel.wait`
    # waits for it.
    #
    # A task is cancelled only once: a second call does nothing, so it cannot interrupt an
    # `ensure` that waits. A task that has ended is unaffected. A task that has not started (some
    # schedulers queue it first) never runs its block. A task that cancels itself leaves at once.
    #
    # @param cause [Exception, nil] why; becomes the cause of the {NB::Cancelled}
    # @return [self]
    # @raise [ArgumentError] if cause is neither nil nor an Exception
    # @raise [NB::Cancelled] in the task itself
    # @scheduling never waits
    # @thread any
    def cancel(cause = nil)
      return self if @cancel&.sent || !alive? || told?

      @cancel ||= Cancelled.caused_by(cause, "#{inspect} was cancelled")
      fiber = @fiber
      raise [@cancel, @cancel.sent = true].first if current?

      Interruption.deliver(@scheduler, fiber, @cancel) if fiber
      self
    end

    # @return [Boolean] whether the block has not ended yet
    # @scheduling never waits
    # @thread any
    def alive? = @state.nil?

    # @return [Boolean] whether {#cancel} ended the task
    # @scheduling never waits
    # @thread any
    def cancelled? = @state == :cancelled

    # @return [Boolean] whether the caller runs in this task
    # @scheduling never waits
    # @thread any
    def current? = Fiber.current.equal?(@fiber)

    # @return [Exception, nil] what the task failed with
    # @scheduling never waits
    # @thread any
    def error = (@result if @state == :failed)

    # @return [Fiber, nil] the fiber that runs the task
    # @api private
    attr_reader :fiber

    # @return [String] e.g. `#<NB::Task fetch app.rb:12 running>`
    def inspect
      words = [self.class.name, name, @place || place].compact.map { |word| Legible.line(word) }
      "#<#{words.join(" ")} #{@state || "running"}>"
    end
    alias to_s inspect

    # Writes the error to stderr, unless that is switched off. {Group} calls this, too.
    # @api private
    # @scheduling may wait
    def report(error)
      Task.failed(self)
      flag = @report_on_exception
      return unless flag.nil? ? Task.report_on_exception : flag

      ErrorReport.write("#{inspect} ended with an exception that nobody waits for " \
                        "(report_on_exception is true)", error)
    end

    private

    # Whether the loop, which is about to end, has cancelled the fiber.
    def told? = @scheduler.respond_to?(:told?) && @scheduler.told?(@fiber)

    # A copy would never end, because nothing runs it.
    def initialize_copy(_)
      raise TypeError, "a #{self.class.name} cannot be copied, as a Thread cannot"
    end

    # An interrupt may strike as any call returns: then the group and the names forget the task.
    def launch
      @group&.task_started(self)
      TaskNames.enter(self) if @name
      Fiber.schedule { run }
      launched = true
    ensure
      # No room for the fiber: whoever counts us must not wait for us. But a scheduler may also
      # interrupt us here after it has made a fiber, which then runs.
      finish(:cancelled, nil) unless launched || @fiber || @state # interrupted, or no room
    end

    def run
      @fiber = Fiber.current
      # Read after @fiber was written; #cancel does it the other way round. One of us sees it.
      @scheduler.own_matches(@origin || @block) if @scheduler.respond_to?(:own_matches)
      @cancel ? finish(:cancelled, @cancel) : finish(:done, @block.call)
    rescue Cancelled => error # ours, or the loop's when it closes
      finish(:cancelled, error)
    rescue *FAILURES => error
      fail_with(error)
      raise if forked?

      report(error) unless @expected
    rescue Exception => error # rubocop:disable Lint/RescueException -- kept, and passed on
      fail_with(error)
      raise if !@expected || forked? # a waiter gets it, once
    ensure
      # Fiber#kill leaves neither a value nor an exception; and another thread's exception may have
      # struck between the steps of #finish, each of which can be repeated.
      finish(@state || :cancelled, @state && @result) if @block # interrupted
    end

    # Whether this is a child that the block has forked. The child ends with this fiber, and whoever
    # waits for this task does so in the parent.
    def forked? = @forks != Task.forks

    # The line where the user wrote it, such as "app.rb:12".
    def place
      origin = @origin || @block or return
      origin = origin.method(:call) unless origin.respond_to?(:source_location)
      origin.source_location&.join(":")
    rescue NameError
      nil # an object that answers to call through method_missing
    end

    def fail_with(error)
      @place = place
      @expected = @group || (@gate && @gate.num_waiting.positive?)
      finish(:failed, error)
    end

    # The order matters to other threads: the result is there when the state says so, and whoever
    # made a gate before the state changed finds it closed. The block goes last: while it is there,
    # the task has not finished.
    def finish(state, result)
      @result = result
      @state = state
      TaskNames.leave(self) if @name
      @gate&.close
      @fiber = @origin = nil
      @group&.task_ended(self, state == :failed ? result : nil)
      @block = nil
    end

    def ended_within?(timeout)
      limit = Check.seconds("the timeout of a task", timeout)
      refuse_to_wait_for_self
      refuse_to_wait_for_parent
      gate = GATE_LOCK.synchronize { @gate ||= Thread::Queue.new }
      return wait_at(gate) unless limit
      return !alive? if limit.zero? # Timeout takes 0 for no limit

      Timeout.timeout(limit, Late) { wait_at(gate) }
    rescue Late
      !alive?
    end

    # A closed queue returns nil to all waiters. The loop is for schedulers that wake too early.
    def wait_at(gate)
      gate.pop while alive?
      true
    end

    def refuse_to_wait_for_parent
      return if !forked? || Task.survivor.equal?(@fiber)

      raise ForkedError, "#{inspect} runs in the parent process: wait for it there, or start one " \
                         "of its own after the fork"
    end

    def refuse_to_wait_for_self
      raise FiberError, "#{inspect} would wait for itself forever" if current?
      return unless Fiber.current.blocking? && Fiber.scheduler.equal?(@scheduler)

      raise NoSchedulerError, "waiting in a blocking fiber would stop the loop that runs " \
                              "#{inspect}: call it inside NB.run { } or Fiber.schedule { }"
    end
  end
end
