# frozen_string_literal: true

require_relative "../errors"
require_relative "check"
require_relative "deadline"
require_relative "inheritance"
require_relative "interruption"
require_relative "task"

module NB
  # A block that ends when all the tasks started in it have ended. Made by {NB.group}.
  #
  # The block runs in the caller's own fiber. Nothing that was started in a group outlives it:
  #
  # - a task fails: the others and the block are cancelled, and when all their `ensure` have run the
  #   first error is raised. Errors of further tasks cannot be raised too, so they go to stderr;
  # - the block fails, is cancelled or times out: the tasks are cancelled, then it goes on its way;
  # - the block is left by `break`, `return` or `throw`: likewise;
  # - the block ends: the tasks run to their end, and its value is the group's.
  #
  # @example Both, or neither
  #   NB.group do |group|
  #     page = group.async { Net::HTTP.get(URI("http://127.0.0.1:8080/page")) }
  #     user = group.async { Net::HTTP.get(URI("http://127.0.0.1:8080/user")) }
  #     [page.value, user.value]
  #   end
  class Group
    # @yieldparam group [Group] where to start tasks
    # @return [Object] the value of the block; nil after {#cancel}
    # @raise [Exception] what left the block, or else the first error of a task
    # @raise [NB::NoSchedulerError] outside of a scheduler's fibers
    # @scheduling always waits while a task is alive
    def self.run(&block) = new.run(&block)

    # @raise [NB::NoSchedulerError] outside of a scheduler's fibers
    def initialize
      @scheduler = Fiber.current_scheduler ||
                   raise(NoSchedulerError, "a group needs a scheduler: call it inside NB.run { }")
      @fiber = Fiber.current
      @depth = Interruption.depth(@scheduler) # a shield around the group does not hold it up
      @tasks = {}.compare_by_identity # that have not ended; a Hash for its order and O(1) delete
      @errors = {} # task => what it raised, in this order
      @state = :open # :open, the block runs; :settling, only tasks run; :closed
    end

    # Starts a task that belongs to this group. In a group that is already being cancelled, the task
    # is cancelled before it starts.
    #
    # @param name [String, nil] see {Task#name}
    # @yield as for {NB.async}
    # @return [Task]
    # @raise [NB::ClosedError] when the group has ended
    # @raise [NB::WrongThreadError] from another thread
    # @scheduling never waits, but the block runs until its own first wait
    def async(name: nil, &block)
      start(block, name: name, &Check.block("Group#async", block))
    end

    # @param origin [#call] what the user wrote, to name its place
    # @api private
    def start(origin, name: nil, &block)
      raise ClosedError, "the group has ended; start tasks within its block" if @state == :closed
      check_thread
      Task.new(self, origin: origin, name: name, &Inheritance.wrap(Deadline.keep(block)))
    end

    # Cancels every task and the block. The group then ends without an error, with nil for a value.
    # The one who calls, if it is of this group, leaves at once. See {Task#cancel}.
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

    # Called by {Task}, in its fiber, when it has ended. Never waits.
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

    # Runs the block, then waits for the tasks. How the block was left decides what becomes of them:
    #
    #   left by                  its tasks          then
    #   its end                  run to their end   the block's value is the group's
    #   an exception             are cancelled      it goes on its way
    #   our own interrupt, from  are being          nil; or what the task raised,
    #     {#cancel} or a task's    cancelled          from {#run}
    #     failure                  already
    #   break, return, throw     are cancelled      it goes on its way
    #
    # `finished` tells the first from the last, which no `rescue` sees.
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

    # Waits for all. What comes in between (a timeout, a cancel, a throw) goes on its way only when
    # that is done; of several the last, as with any exception out of an `ensure`.
    def settle
      @state = :settling
      wait_for_tasks until settled?
    rescue Exception => error # rubocop:disable Lint/RescueException -- raised again
      cancel_all(error)
      raise
    ensure
      conclude unless settled?
    end

    # Our interrupt must have arrived before we leave, or it would come out of some later wait. It
    # has when it has a backtrace, even if the block rescued it.
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

    # Where it was interrupted, the next call does the rest.
    #
    # @return [Task, nil] the task that makes this call. It is not cancelled: that would leave at
    #   once, with the rest of the work not done.
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

    # Errors that cannot be raised because another one was: not lost, but not twice either.
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
