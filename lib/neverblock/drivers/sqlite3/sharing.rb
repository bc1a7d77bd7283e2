# frozen_string_literal: true

module NB
  module Drivers
    module SQLite
      # Keeps a connection that several fibers or threads use to one statement at a time. While
      # SQLite waits for a lock itself, nobody else runs at all. A busy handler waits in Ruby, in
      # the middle of a statement. Meanwhile
      #
      # - each statement of another fiber or thread would commit together with the waiting one:
      #   after it has returned, or never;
      # - if the connection has a mutex ({Opening}), another thread would wait for it in C, with
      #   Ruby's lock, which the handler needs to return. Neither would ever go on.
      #
      # So whoever begins, resets or closes a statement waits until the handler has returned.
      # Threads may also be anywhere between two rows of a statement. So outside a loop, a
      # connection that threads share waits as it does by itself, in C (not if the program has set a
      # busy handler of its own).
      class Sharing
        class << self
          # @return [void]
          # @api private
          def start(database, ...) = database.instance_variable_set(:@neverblock_sharing, new(...))

          # Called before a statement begins by `step`.
          #
          # @return [true]
          # @scheduling may wait
          # @thread any
          # @api private
          def begin(statement, database)
            enter(database)
            SQLiteFree.later(statement, database)
            true
          end

          # @return [void]
          # @api private
          def stop(database)
            enter(database)
            database.instance_variable_set(:@neverblock_sharing, nil)
          end

          # Called before a statement begins.
          #
          # @return [void]
          # @scheduling may wait
          # @thread any
          # @api private
          def enter(database) = database.instance_variable_get(:@neverblock_sharing)&.enter
        end

        # @param watched [Watched] the busy handler
        # @param in_c [Proc, nil] lets SQLite wait by itself; nil: it cannot
        # @param in_ruby [Proc] sets the busy handler again
        def initialize(watched, in_c, in_ruby)
          @watched = watched
          @in_c = in_c
          @in_ruby = in_ruby
          @waits_in_c = false
        end

        # See {.enter}.
        # @api private
        def enter
          @watched.await_turn if @watched.fiber
          look_for_others unless @in_c.nil? || @thread.equal?(Thread.current)
        end

        private

        def look_for_others
          return @thread = Thread.current unless @thread || @shared

          @shared = true
          @thread = nil
          wait_in_c(Repairs.loop_here.nil?)
        end

        def wait_in_c(yes)
          return if @waits_in_c == yes

          @waits_in_c = yes
          (yes ? @in_c : @in_ruby).call
        end

        # Prepended to SQLite3::Database. Most statements begin by being prepared ({Beginning}).
        module Database
          # Works like sqlite3's own method.
          # @api private
          def close
            Sharing.enter(self)
            super
          end

          private

          # A COMMIT in it waits inside SQLite.
          def exec_batch(*)
            Sharing.enter(self)
            SQLiteFree.hold(self) { super }
          end
        end

        # Prepended to SQLite3::Statement.
        module Statement
          # Works like sqlite3's own method. From 2.10.2 on, that leaves a statement begun whose
          # busy handler raises, and SQLite commits nothing until it is reset.
          # @api private
          def step
            return neverblock_for_lock if @neverblock_kind

            begin
              @neverblock_goes_on ||= Sharing.begin(self, @connection)
              row = super
              whole = true
              row
            ensure
              reset! unless whole || closed?
            end
          end

          # Works like sqlite3's own method. SQLite still needs a statement that waits.
          # @api private
          def reset!
            Sharing.enter(@connection)
            @neverblock_goes_on = false
            super
          end

          # Works like sqlite3's own method. See {#reset!}.
          # @api private
          def close
            Sharing.enter(@connection)
            super
          end

          private

          # Steps as its kind wants it ({Beginning}).
          def neverblock_for_lock
            kind = @neverblock_kind
            @neverblock_kind = nil
            Waits.make_way unless kind == :repeatable
            return step if kind == :begin

            Waits.outside(@connection) { SQLiteFree.hold(@connection) { step } }
          ensure
            @neverblock_kind = kind
          end
        end
      end
    end
  end
end
