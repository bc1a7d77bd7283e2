# frozen_string_literal: true

require_relative "../errors"
require_relative "check"
require_relative "deadline"
require_relative "inheritance"
require_relative "interruption"
require_relative "task"

module NB
  # A block that ends when all tasks started in it have ended. {NB.group} makes one.
  #
  # The block runs in the caller's own fiber. Nothing started in a group outlives it:
  #
  # - If a task fails, the other tasks and the block are cancelled. When their `ensure` blocks have
  #   run, the first error is raised. Errors of further tasks go to stderr.
  # - If the block fails, is cancelled or times out, the tasks are cancelled, then the exception
  #   propagates.
  # - If `break`, `return` or `throw` leaves the block, the tasks are cancelled, too.
  # - If the block ends, the tasks run to their end, and its value is the group's.
  #
  # @example Both, or neither
  #   NB.group do |group|
  #     page = group.async { Net::HTTP.get(URI("http://127.0.0.1:8080/page")) }
  #     user = group.async { Net::HTTP.get(URI("http://127.0.0.1:8080/user")) }
  #     [page.value, user.value]
  #   end
  class Group
    # @yieldparam group [Group] starts tasks
    # @return [Object] the value of the block; nil after {#cancel}
    # @raise [Exception] what left the block, or otherwise the first error of a task
    # @raise [NB::NoSchedulerError] outside a scheduler's fibers
    # @scheduling always waits while a task is alive
    def self.run(&block) = new.run(&Check.block("Group.run", block))

    # @raise [NB::NoSchedulerError] outside a scheduler's fibers
    def initialize
      @scheduler = Fiber.current_scheduler ||
                   raise(NoSchedulerError, "a group needs a scheduler: call it inside NB.run { }")
      @fiber = Fiber.current
      @depth = Interruption.depth(@scheduler) # a shield around the group does not hold it up
      @tasks = {}.compare_by_identity # that have not ended; a Hash for its order and O(1) delete
      @errors = {} # task => what it raised, the first one first
      @state = :open # :open: the block runs; :settling: only tasks run; :closed
    end

    # Starts a task that belongs to this group. If the group is being cancelled, so is the task,
    # before it starts.
    #
    # @param name [String, nil] see {Task#name}
    # @yield as for {NB.async}
    # @return [Task]
    # @raise [NB::ClosedError] after the group has ended
    # @raise [NB::WrongThreadError] from another thread
    # @scheduling never waits, but the block runs until its own first wait
    def async(name: nil, &block)
      start(block, name: name, &Check.block("Group#async", block))
    end

    # @param origin [#call] what the user wrote: names the line in reports
    # @api private
    def start(origin, name: nil, &block)
      raise ClosedError, "the group has ended; start tasks within its block" if @state == :closed
      check_thread
      Task.new(self, origin: origin, name: name, &Inheritance.wrap(Deadline.keep(block)))
    end

    # Cancels every task and the block. The group then ends without an error and returns nil. If the
    # caller belongs to the group, it leaves at once. See {Task#cancel}.
    #
    # @param cause [Exception, nil] why
    # @return [self]
    # @raise [NB::Cancelled] in a task of this group, and in its block
    # @raise [NB::WrongThreadError] from another thread
    # @scheduling never waits
    def cancel(cause = nil)
      check_thread
      return self if @state == :closed

      own = cancel_all(cause)
      own&.cancel(cause)
      raise @interrupt if @state == :open && Fiber.current.equal?(@fiber)

      self
    end

    # @return [Integer] how many tasks have not ended
    # @scheduling never waits
    def count = @tasks.size

    # @return [String] e.g. `#<NB::Group open, 3 tasks>`
    def inspect = "#<#{self.class.name} #{@state}, #{count} tasks>"

    # Called by {Task} before its fiber runs.
    # @api private
    def task_started(task)
      @tasks[task] = true
      task.cancel(@interrupt.cause) if @interrupt
    end

    # Called by {Task} in its fiber when it has ended. Never waits.
    # @api private
    def task_ended(task, error)
      @tasks.delete(task)
      @gate&.push(true) if @tasks.empty?
      return unless error

      @errors[task] = error
      cancel_all(error)
    end

    # Called once, by {Group.run}.
    # @api private
    def run(&block)
      begin
        value = supervise(&block)
      ensure
        conclude unless settled? # interrupted on the way there
        @state = :closed
      end
      raise @errors.first.last if @errors.any?

      value
    rescue Exception => error # rubocop:disable Lint/RescueException -- only looked at
      raised = error
      raise
    ensure
      report_all_but(raised)
    end

    private

    # Runs the block, then waits for the tasks. The way the block is left decides what happens:
    #
    #   the block is left by     its tasks          then
    #   its end                  run to their end   the group returns the block's value
    #   an exception             are cancelled      the exception propagates
    #   our own interrupt, from  are already        the group returns nil, or {#run}
    #     {#cancel} or a task's    being              raises what the task raised
    #     failure                  cancelled
    #   break, return, throw     are cancelled      the jump continues
    #
    # `finished` tells the first case from the last, which no `rescue` sees.
    def supervise
      value = yield self
      finished = true
      value
    rescue Exception => error # rubocop:disable Lint/RescueException -- raised again, unless ours
      @state = :settling
      cancel_all(error)
      raise unless error.equal?(@interrupt)
    ensure
      finished ? settle : conclude
    end

    def conclude
      @state = :settling
      cancel_all(nil)
      settle
    end

    # Waits for all tasks. Whatever arrives meanwhile (a timeout, a cancel, a throw) propagates only
    # when they have ended; of several, the last one does, as with exceptions in an `ensure`.
    def settle
      @state = :settling
      wait_for_tasks until settled?
    rescue Exception => error # rubocop:disable Lint/RescueException -- raised again
      cancel_all(error)
      raise
    ensure
      conclude unless settled?
    end

    # Our interrupt must have arrived before we leave, or some later wait would raise it. It has
    # arrived when it has a backtrace, even if the block rescued it.
    def settled?
      @tasks.empty? && (!@interrupt&.sent || @interrupt.backtrace)
    end

    def wait_for_tasks
      @gate = Thread::Queue.new
      @gate.pop
    rescue Cancelled => error
      raise unless error.equal?(@interrupt)
    ensure
      @gate = nil
    end

    # If it is interrupted, the next call does the rest.
    #
    # @return [Task, nil] the task that makes this call. It is not cancelled here: that would leave
    #   at once, with the rest undone.
    def cancel_all(cause)
      return if @all_cancelled

      @interrupt ||= Cancelled.caused_by(cause, "the group was cancelled")
      own, others = @tasks.keys.partition(&:current?)
      interrupt_block
      others.each { |task| task.cancel(cause) }
      @all_cancelled = true
      own.first
    end

    def interrupt_block
      return if @interrupt.sent || @state != :open || Fiber.current.equal?(@fiber)

      Interruption.deliver(@scheduler, @fiber, @interrupt, depth: @depth)
    end

    def check_thread
      return if Fiber.scheduler.equal?(@scheduler)

      raise WrongThreadError, "a group belongs to the thread that made it"
    end

    # Errors that cannot be raised because another was: reported, and only once.
    def report_all_but(raised)
      return if @errors.empty?

      seen = []
      while raised && !seen.include?(raised)
        seen << raised
        raised = raised.cause
      end
      @errors.each { |task, error| task.report(error) unless seen.any? { |one| one.equal?(error) } }
    end
  end
end
