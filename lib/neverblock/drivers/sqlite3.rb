# frozen_string_literal: true

require_relative "registry"
require_relative "../loop/repairs"
require_relative "sqlite3/beginning"
require_relative "sqlite3/opening"
require_relative "sqlite3/sharing"
require_relative "sqlite3/transaction"
require_relative "sqlite3/waits"

# sqlite3's `busy_timeout=` sleeps in C while another connection holds the lock. Here it becomes a
# busy handler that sleeps in Ruby, so other fibers run. SQLite allows no other use of the
# connection meanwhile, so who else uses it waits ({NB::Drivers::SQLite::Sharing}). Everything else
# that sqlite3 does holds Ruby's lock, in threads as well as here.
module NB
  module Drivers
    # Waits for the lock of a database.
    module SQLite
      # The first sqlite3 that lets SQLite end its call before it raises what a busy handler raised.
      ENDS_CALLS = "2.10.2"
      # Key of the fiber-local that holds what a busy handler raised.
      RAISED = :neverblock_sqlite3_raised
      # Key of the fiber-local that says that no other call raises it ({Ends}).
      ENDS = :neverblock_sqlite3_ends
      # Key of the fiber-local that says that garbage is freed here (sqlite_free.c).
      FREEING = :neverblock_sqlite3_freeing
      private_constant :RAISED, :ENDS, :FREEING

      # The busy handler in place of `busy_timeout=`.
      class Wait
        # Seconds between two attempts. SQLite begins with 1 ms and goes up to 100 ms.
        INTERVAL = 0.002

        # @return [Numeric]
        attr_reader :milliseconds

        def initialize(milliseconds)
          @milliseconds = milliseconds
          @seconds = milliseconds / 1000.0
        end

        # @return [Boolean] whether SQLite should try again
        def call(count)
          now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          @deadline = now + @seconds if count.zero?
          return false if now >= @deadline

          sleep INTERVAL
          true
        end
      end

      # Wraps any busy handler, so that others make way, and forks know of it ({Waits}).
      class Watched
        # @param database [SQLite3::Database] whose busy handler it is
        def initialize(handler, database)
          @handler = handler
          @database = database
        end

        # @return [SQLite3::Database]
        attr_reader :database

        # @return [Fiber, nil] the last one that was in the handler, and perhaps still is
        attr_reader :fiber

        # Called by SQLite.
        #
        # @return [Object] what the handler returns; false if it waits later
        def call(count)
          Waits.inside(self)
          return false if Waits.put_off?(self)

          note(count)
          @handler.call(count)
        end

        # Called between two attempts, when SQLite has ended the statement.
        #
        # @return [Object] what the handler returns
        def wait(count)
          note(count)
          @outside = true
          @handler.call(count)
        end

        # Called after the last attempt.
        #
        # @return [void]
        def waited = @outside = false

        # Waits until no other fiber is in a statement that waits. Asks the stack, because SQLite
        # goes on when the handler has returned.
        #
        # @return [void]
        # @scheduling may wait
        # @thread any
        def await_turn
          @fiber = nil unless @process == Process.pid # nobody else lives on in a child
          until (fiber = @fiber).nil? || fiber.equal?(Fiber.current)
            (@outside && fiber.alive?) || Waits.inside?(fiber) ? sleep(0.001) : @fiber = nil
          end
        end

        private

        def note(count)
          @fiber = Fiber.current
          @process = Process.pid
          @since = Process.clock_gettime(Process::CLOCK_MONOTONIC) if count.zero?
          Waits.looks(@since)
        end
      end

      # Prepended to the classes whose methods call SQLite.
      class Calls < Module
        def initialize(*names)
          super()
          names.each do |name|
            define_method(name) do |*arguments|
              super(*arguments)
            rescue ::SQLite3::BusyException
              SQLite.raise_what_came
              raise
            end
          end
          (names & %i[prepare exec_batch]).each { |name| private(name) }
        end
      end

      # Prepended to the classes whose methods tell nothing of a lock that did not come free:
      # sqlite3 2.10.2 drops what a busy handler raises there.
      class Ends < Module
        def initialize(*names)
          super()
          names.each do |name|
            define_method(name) { |*arguments| SQLite.ending { super(*arguments) } }
          end
        end
      end

      # @yield a method of {Ends}
      # @return the block's value
      # @raise [Exception] what a busy handler raised meanwhile
      # @api private
      def self.ending
        around = Thread.current[ENDS]
        Thread.current[ENDS] = true
        yield.tap { raise_what_came }
      ensure
        Thread.current[ENDS] = around
      end

      # @return [void]
      # @raise [Exception] what a busy handler of this fiber raised
      # @api private
      def self.raise_what_came
        error = Thread.current[RAISED] or return
        Thread.current[RAISED] = nil
        raise error
      end

      # Ends what nobody has closed, while a busy handler may still wait: when Ruby then frees
      # everything, no Ruby code may run.
      #
      # @param reset [UnboundMethod] sqlite3's own
      # @return [void]
      # @api private
      def self.finish(reset)
        SQLiteFree.finish(0)
        Thread.current[FREEING] = true
        statements = ObjectSpace.each_object(::SQLite3::Statement)
        statements.select { |one| SQLiteFree.living?(one) }.each do |one|
          reset.bind_call(one)
        rescue ::SQLite3::Exception
          next # its connection is the parent's
        end
        SQLiteFree.exit
      end
    end
  end
end

NB::Drivers.register("sqlite3", constant: "SQLite3::Database", version: "SQLite3::VERSION",
                                versions: [">= 1.6", "< 3"]) do |driver|
  sqlite = NB::Drivers::SQLite
  guards = Gem::Version.new(SQLite3::VERSION) < Gem::Version.new(sqlite::ENDS_CALLS)
  in_c = SQLite3::Database.instance_method(:busy_timeout=)
  waiting = Module.new do
    define_method(:busy_timeout=) do |milliseconds|
      time = milliseconds.is_a?(Numeric) && milliseconds.positive?
      if driver.on? && time
        busy_handler(sqlite::Wait.new(milliseconds))
      else
        sqlite::Sharing.stop(self)
        super(milliseconds)
      end
    end
    define_method(:busy_timeout) { |milliseconds| __send__(:busy_timeout=, milliseconds) }
    define_method(:busy_handler) do |handler = nil, &block|
      handler ||= block
      sqlite::Sharing.stop(self)
      next super(handler, &nil) unless handler && driver.on?

      watched = sqlite::Watched.new(handler, self)
      outer = sqlite::Guard.new(watched, guards)
      super(outer, &nil).tap do
        by_itself = -> { in_c.bind_call(self, handler.milliseconds) } if handler.is_a?(sqlite::Wait)
        sqlite::Sharing.start(self, watched, by_itself, -> { super(outer, &nil) })
        NB::Drivers::SQLiteFree.own(self, outer)
      end
    end
  end
  SQLite3::Database.prepend(waiting, sqlite::Sharing::Database, sqlite::Transaction.new(driver),
                            sqlite::Opening.new(driver), sqlite::Trace)
  preparing = SQLite3::Statement.private_method_defined?(:prepare) ? :prepare : :initialize # in 1.x
  reset = SQLite3::Statement.instance_method(:reset!)
  SQLite3::Statement.prepend(sqlite::Beginning.new(preparing), sqlite::Sharing::Statement,
                             sqlite::Ends.new(:reset!, :close))
  SQLite3::Backup.prepend(sqlite::Ends.new(:step)) if defined?(SQLite3::Backup)
  at_exit { NB::Drivers::SQLiteFree.finish(5000) }
  ObjectSpace.define_finalizer(sqlite, proc { sqlite.finish(reset) })
  if guards
    SQLite3::Statement.prepend(sqlite::Calls.new(:step, preparing))
    SQLite3::Database.prepend(sqlite::Calls.new(:exec_batch))
  end
end
