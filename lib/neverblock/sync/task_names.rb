# frozen_string_literal: true

require_relative "labels"

module NB
  # How many tasks of each name run in this process: the `nb_tasks` of `/metrics`. Tasks without a
  # name never come here.
  #
  # @api private
  module TaskNames
    # How many names are told apart, for the life of the process; further ones count as {Labels::REST}.
    LIMIT = 50

    # Each of its calls is one in C: threads need no lock for it.
    @running = {}.compare_by_identity
    @labels = Labels.new(LIMIT)
    @lock = Thread::Mutex.new

    class << self
      # Counts a task under its name; or under another than before, or no more, when it has changed.
      #
      # @param task [Task]
      # @return [void]
      def enter(task)
        name = task.name or return leave(task)

        @running[task] = name
        # From another thread: it may have ended, and left, in between.
        leave(task) unless task.alive?
      end

      # @return [void]
      def leave(task) = @running.delete(task)

      # @return [Hash{String=>Integer}] by label; a name that was told once stays, with 0
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

      # In a forked child only the fiber that forked goes on.
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
