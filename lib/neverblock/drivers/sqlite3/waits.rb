# frozen_string_literal: true

require_relative "../../loop/fork"

module NB
  module Drivers
    module SQLite
      # Who is inside a busy handler. SQLite keeps a mutex of the connection locked meanwhile, in C.
      # A child forked at that moment hangs without end when it closes the connection, as sqlite3
      # makes it do at once: nobody unlocks its copy of the mutex. It does so without NeverBlock,
      # too, with threads and a handler that waits in Ruby, such as `busy_handler_timeout=`.
      #
      # So forks wait until nobody is there. Because the one who forks may hold the lock that the
      # others wait for, those who begin a transaction make way ({Begin}): they have done nothing
      # yet.
      module Waits
        # Key of the fiber-local that tells whether the call may be repeated, and whether it must.
        KEY = :neverblock_sqlite3_begins
        # Seconds after which a wait for the lock is long.
        LONG = 0.05
        # Seconds in which everybody who waits looks at the lock.
        LOOK = 0.005
        private_constant :KEY, :LONG, :LOOK
        @fibers = ObjectSpace::WeakMap.new
        @long_at = 0.0 # when somebody who had waited for long looked at the lock

        class << self
          # @yield the busy handler
          # @return what the handler returns; false to make way
          # @thread any
          # @api private
          def inside
            @fibers[Fiber.current] = true
            return yield unless Thread.current[KEY]

            Fork.waiting? ? (Thread.current[KEY] = :again) && false : yield
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

          # Repeats the block if it has made way for a fork.
          #
          # @yield a call that fails without having done anything if its handler returns false
          # @return the block's value
          # @thread any
          # @api private
          def repeatable
            Thread.current[KEY] = :once
            yield
          rescue ::SQLite3::BusyException
            raise unless Thread.current[KEY] == :again

            sleep 0.001 while Fork.waiting?
            retry
          ensure
            Thread.current[KEY] = nil
          end

          # Asks the stacks, because SQLite goes on when the handler has returned, and Ruby may
          # switch threads in its last line.
          #
          # @return [Boolean] whether there is another fiber in a busy handler, of any thread
          # @thread any
          # @api private
          def any?
            return false if @fibers.size.zero?

            own = Fiber.current
            @fibers.keys.any? { |fiber| !fiber.equal?(own) && inside?(fiber) }
          end

          # Nobody of the parent is in a handler any more.
          #
          # @return [void]
          # @api private
          def forked = @fibers = ObjectSpace::WeakMap.new

          # @return [Boolean] whether the fiber is in a busy handler
          # @api private
          def inside?(fiber)
            fiber.alive? && fiber.backtrace_locations&.any? do |place|
              place.path == __FILE__ && place.base_label == "inside"
            end
          end
        end
      end

      # Extends a statement that begins a transaction.
      module Begin
        # Works like sqlite3's own method.
        # @api private
        def step
          Waits.make_way
          Waits.repeatable { super }
        end
      end

      # Prepended to SQLite3::Statement.
      class Beginning < Module
        BEGIN_WORD = /\A\s*begin\b/i
        private_constant :BEGIN_WORD

        # @param name [Symbol] of the method that prepares the statement
        def initialize(name)
          super()
          begins = method(:begins?)
          define_method(name) do |database, sql|
            extend(Begin) if begins.call(sql)
            Sharing.enter(database)
            super(database, sql)
          end
          private(name)
        end

        private

        # SQL may hold any bytes, and be UTF-16.
        def begins?(sql)
          return false unless sql.is_a?(String)

          wide = !sql.encoding.ascii_compatible?
          BEGIN_WORD.match?(wide ? sql.encode("UTF-8", invalid: :replace, undef: :replace) : sql.b)
        end
      end
    end
  end
end

NB::Fork.not_while { NB::Drivers::SQLite::Waits.any? }
NB::Fork.in_child { NB::Drivers::SQLite::Waits.forked }
