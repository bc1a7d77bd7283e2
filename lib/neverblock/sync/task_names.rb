# frozen_string_literal: true

require_relative "labels"

module NB
  # Counts this process's running tasks by name, for `nb_tasks` in `/metrics`. Tasks without a name
  # never get here.
  #
  # @api private
  module TaskNames
    # How many names are told apart while the process lives; further ones count as {Labels::REST}.
    LIMIT = 50

    # Each call on it is a single C call, so threads need no lock for it.
    @running = {}.compare_by_identity
    @labels = Labels.new(LIMIT)
    @lock = Thread::Mutex.new

    class << self
      # Counts a task under its name. If the name has changed, moves the task to the new one, or
      # drops it.
      #
      # @param task [Task]
      # @return [void]
      def enter(task)
        name = task.name or return leave(task)

        @running[task] = name
        # Called from another thread: the task may have ended and left in between.
        leave(task) unless task.alive?
      end

      # @return [void]
      def leave(task) = @running.delete(task)

      # @return [Hash{String=>Integer}] by label; a name that was reported once stays, with 0
      # @scheduling may wait
      # @thread any
      def counts
        @lock.synchronize do
          counts = @running.values.tally
          found = counts.group_by { |name, _| @labels.of(name) }
          all = @labels.all.to_h { |text| [text, 0] }
          all.merge(found.transform_values { |pairs| pairs.sum(&:last) })
        end
      end

      # @return [Hash{Fiber=>String}] compared by identity; names are cut to {Labels::LENGTH}
      # @scheduling never waits
      # @thread any
      def by_fiber
        named = {}.compare_by_identity
        # No block runs while the Hash is read: a task may begin in another thread.
        @running.to_a.each { |task, name| named[task.fiber] = Labels.text(name) if task.fiber }
        named
      end

      # In a forked child, only the fiber that forked continues.
      #
      # @param survivor [Fiber]
      # @return [void]
      def forked(survivor)
        @running.select! { |task, _| task.fiber.equal?(survivor) }
        @labels.clear
        @lock = Thread::Mutex.new
      end
    end
  end
end
