# frozen_string_literal: true

require_relative "../../loop/fork"

module NB
  module Drivers
    module SQLite
      # Wraps any busy handler. A timeout or a cancel must not jump over SQLite's C frames: that
      # would leave the statement in the middle, and a mutex locked, if the connection has one.
      # Instead SQLite gives up, and the calling method raises the exception ({Calls}, {Ends}).
      class Guard
        # @param always [Boolean] false: sqlite3 does so by itself, except where {Ends} does
        def initialize(handler, always)
          @handler = handler
          @always = always
        end

        # @return [Object] what the handler returns; false after an exception
        def call(count)
          Thread.current[RAISED] = nil # of a call that nobody has raised it from
          @handler.call(count)
        rescue Exception => error # rubocop:disable Lint/RescueException -- raised by Calls
          raise unless (Repairs.loop_here && (@always || Thread.current[ENDS])) ||
                       Thread.current[FREEING]

          Thread.current[RAISED] = error
          false
        end
      end

      # Who is inside a busy handler, in the middle of a statement. A child forked at that moment
      # must not free the statement: SQLite would go on with it, or take back what it has written.
      #
      # If the connection has a mutex ({Opening}), SQLite keeps it locked meanwhile, in C. Then the
      # child would hang without end when it closes the connection, as sqlite3 makes it do at once:
      # nobody unlocks its copy of the mutex. So forks wait until nobody is there.
      module Waits
        # Key of the fiber-local for a statement that waits outside SQLite: the {Attempt}.
        KEY = :neverblock_sqlite3_outside
        # A connection's statement; how often it has been repeated; then the {Watched} that SQLite
        # has called. SQLite may call a trace, too, which may use other connections.
        Attempt = Struct.new(:database, :count, :watched)
        # Seconds after which a wait for the lock is long.
        LONG = 0.05
        # Seconds in which everybody who waits looks at the lock.
        LOOK = 0.005
        # Instance variable of a fiber: the ID of the connection in whose handler it was last.
        # It does not keep the connection alive, which may not be a value of @fibers: see
        # Scheduler#end_fibers.
        INSIDE = :@neverblock_sqlite3_inside
        private_constant :KEY, :Attempt, :LONG, :LOOK, :INSIDE
        @fibers = ObjectSpace::WeakMap.new
        @before_fork = []
        @long_at = 0.0 # when somebody who had waited for long looked at the lock

        class << self
          # Told by the busy handler when SQLite calls it.
          #
          # @param watched [Watched]
          # @return [void]
          # @thread any
          # @api private
          def inside(watched)
            fiber = Fiber.current
            fiber.instance_variable_set(INSIDE, watched.database.object_id)
            @fibers[fiber] = fiber
          end

          # Repeats a statement that SQLite ends, without having done anything, when its handler
          # returns false. So the handler waits between two attempts.
          #
          # @param database [SQLite3::Database]
          # @yield the statement
          # @return the block's value
          # @scheduling may wait
          # @thread any
          # @api private
          def outside(database)
            around = Thread.current[KEY]
            count = 0
            begin
              Thread.current[KEY] = attempt = Attempt.new(database, count)
              yield
            rescue ::SQLite3::BusyException
              Thread.current[KEY] = around
              watched = attempt.watched
              raise if watched.nil? || watched.wait(count) == false

              count += 1
              retry
            ensure
              Thread.current[KEY] = around
              watched&.waited
            end
          end

          # @return [Boolean] whether that handler will wait when SQLite has ended the statement
          # @api private
          def put_off?(watched)
            attempt = Thread.current[KEY]
            return false unless attempt && attempt.database.equal?(watched.database)

            attempt.watched = watched
            true
          end

          # @param database [SQLite3::Database]
          # @return [Boolean] whether its statement has been attempted before
          # @api private
          def again?(database)
            attempt = Thread.current[KEY]
            !attempt.nil? && attempt.count.positive? && attempt.database.equal?(database)
          end

          # Told whenever somebody looks at the lock.
          #
          # @param since [Float] when that wait began, by the monotonic clock
          # @return [void]
          # @thread any
          # @api private
          def looks(since)
            now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
            @long_at = now if now - since >= LONG
          end

          # Lets those who wait for long take the lock first. Nobody queues for it: whoever has just
          # given it back would take it again before the others look.
          #
          # @return [void]
          # @thread any
          # @api private
          def make_way
            sleep LOOK if Process.clock_gettime(Process::CLOCK_MONOTONIC) - @long_at < LOOK
          end

          # Called before a fork. Asks the stacks, because SQLite goes on when the handler has
          # returned, and Ruby may switch threads in its last line.
          #
          # @return [Boolean] whether another fiber, of any thread, is in a busy handler whose
          #   connection has a mutex
          # @thread any
          # @api private
          def any?
            @before_fork = []
            return false if @fibers.size.zero?

            own = Fiber.current
            there = @fibers.keys.select { |fiber| !fiber.equal?(own) && inside?(fiber) }
            @before_fork = databases_of(there)
            !@before_fork.all? { |database| Opening.bare?(database) }
          end

          # Nobody of the parent is in a handler any more.
          #
          # @return [void]
          # @api private
          def forked
            databases = @before_fork.select { |database| Opening.bare?(database) }
            @fibers = ObjectSpace::WeakMap.new
            @before_fork = []
            return if databases.empty?

            ObjectSpace.each_object(::SQLite3::Statement) { |one| one.neverblock_abandon(databases) }
          end

          # @return [Boolean] whether the fiber is in a busy handler
          # @api private
          def inside?(fiber)
            fiber.alive? && fiber.backtrace_locations&.any? do |place|
              place.path == __FILE__ && place.base_label == "call" # Guard's
            end
          end

          private

          def databases_of(fibers)
            ids = fibers.map { |fiber| fiber.instance_variable_get(INSIDE) }
            return [] if ids.empty?

            ObjectSpace.each_object(::SQLite3::Database).select { |one| ids.include?(one.object_id) }
          end
        end
      end
    end
  end
end

NB::Fork.not_while { NB::Drivers::SQLite::Waits.any? }
NB::Fork.in_child do
  NB::Drivers::SQLiteFree.forget
  NB::Drivers::SQLite::Waits.forked
end
