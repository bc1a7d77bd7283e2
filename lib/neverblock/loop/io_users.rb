# frozen_string_literal: true

require_relative "offload"
require_relative "repairs"

module NB
  # The threads that use an IO while a fiber closes it. Closing drives them out, with an IOError,
  # and waits until they have left.
  #
  # In Ruby 3.4 a thread that leaves holds a lock which the closing one needs next, and calls the
  # hook `unblock` of the scheduler of the closing thread. But at its return from the hook the
  # IOError strikes, so the thread keeps the lock until it ends. A thread without a scheduler is
  # woken without a hook: there the lock is given back first. (Ruby 3.1 needs no lock. 3.2 and 3.3
  # were not tried, and are treated as 3.4.)
  #
  # A thread also closes a socket with SO_LINGER that still has something to send.
  #
  # The fiber waits for that thread, so others run before the IO is closed. An IO that does not own
  # its fd is closed at once: its owner may have closed the fd, and the next one who gets the number
  # would be driven out. libpq does so, for one.
  # @api private
  module IOUsers
    AFFECTED = RUBY_VERSION >= "3.2" && RUBY_VERSION < "4"

    # A thread that waits in one of these methods uses no IO.
    ELSEWHERE = %w[deq enter join lock mon_enter pop run select shift sleep stop synchronize
                   value].freeze
    # A thread keeps here the only IO that it uses. A thread variable could not be removed, and a
    # thread of {Offload} with one does no other work.
    ONLY = :@neverblock_only_io
    private_constant :AFFECTED, :ELSEWHERE, :ONLY

    module_function

    # Runs the block, which calls the method and so drives them out of io.
    #
    # @param method [Symbol] :close, :close_read, :close_write or :reopen
    # @return the block's value
    # @scheduling may wait
    def drive_out(io, method, &block)
      flush(io, method)
      job = elsewhere(io, block) if there?(io) || (method == :close && lingers?(io))
      return yield unless job

      value, status = job.value
      Fiber.scheduler.last_status = status if status
      value
    end

    # Before it is closed, so that nobody runs in between: an error is met again by the close.
    #
    # @return [void]
    # @scheduling may wait
    def flush(io, method)
      Native.flush_before(io, method)
    rescue SystemCallError
      nil
    rescue IOError
      raise unless io.closed? # by another fiber
    end
    private_class_method :flush

    # @return [Boolean] whether a loop of ours runs this thread, and other threads may use io
    def there?(io)
      AFFECTED && Fiber.scheduler.is_a?(Scheduler) && owner?(io) &&
        Thread.list.any? { |one| user?(one, io) }
    end

    # @return [Boolean] whether a loop of ours runs this thread, and the close would stop it
    def lingers?(io) = Fiber.scheduler.is_a?(Scheduler) && Native.lingers?(io)

    # The calling thread uses only this IO, or none, in the block, or for as long as it lives: to
    # close another, nobody needs to drive it out.
    # @param io [IO, :none]
    # @return the block's value
    def only(io)
      thread = Thread.current
      thread.instance_variable_set(ONLY, io)
      return unless block_given?

      begin
        yield
      ensure
        thread.remove_instance_variable(ONLY)
      end
    end

    # Urgent: all threads of the pool may wait for that close.
    #
    # @return [Offload::Job, nil] nil in a trap handler, and without room for a thread
    def elsewhere(io, block)
      Offload.default.start(urgent: true) { only(io) { [block.call, $?] } }
    rescue ThreadError
      nil
    end
    private_class_method :elsewhere

    def owner?(io) = !io.closed? && io.autoclose?
    private_class_method :owner?

    # Whether the thread may be inside an operation on io.
    def user?(thread, io)
      return false if thread.equal?(Thread.current) || !thread.stop?

      only = thread.instance_variable_get(ONLY)
      return only.equal?(io) if only

      place = thread.backtrace_locations(0, 1)&.first
      !place.nil? && !ELSEWHERE.include?(place.base_label)
    end
    private_class_method :user?
  end
end
