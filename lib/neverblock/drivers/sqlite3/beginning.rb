# frozen_string_literal: true

require_relative "waits"

module NB
  module Drivers
    module SQLite
      # Prepended to SQLite3::Statement. Notes what kind of statement it is.
      #
      # - A statement that begins a transaction makes way for those who have waited for long.
      # - {Waits.outside} repeats a statement that SQLite gives up without the lock, if nothing is
      #   done by then and nothing is lost: a COMMIT still keeps new readers out until the old ones
      #   have gone. Other statements would lose that, or all that they have done, so their busy
      #   handlers wait inside SQLite.
      #
      # COMMIT waits outside because no other statement of that connection may end while it is in
      # the middle, as garbage may that holds the lock for which others wait ({SQLiteFree}).
      class Beginning < Module
        # The first words, after what SQLite skips: blanks, byte order marks, comments, semicolons.
        WORDS = %r{\A(?<gap>(?>(?:[\s;]+|\xEF\xBB\xBF|--[^\n]*\n|/\*.*?\*/)*))
                   (?:(?<begin>begin)(?:\b\g<gap>(?<immediate>immediate))?
                     |commit|end|release)\b}mixn
        # Whether SQL that begins with that byte may begin with these words. (0: it may be UTF-16.)
        FIRST = Array.new(256) { |byte| "\0 \t\n\v\f\r;\xEF-/bBcCeErR".b.include?(byte.chr) }.freeze
        private_constant :WORDS, :FIRST

        # @param name [Symbol] of the method that prepares the statement
        def initialize(name)
          super()
          kind = method(:kind)
          define_method(name) do |database, sql|
            @neverblock_kind = kind.call(sql)
            Sharing.enter(database)
            super(database, sql)
          end
          private(name)
          define_abandon(name)
        end

        private

        # Lets SQLite's statement go without an end, in a forked child. sqlite3 forgets it when it
        # prepares another one, and SQLite makes none of "".
        def define_abandon(preparing)
          define_method(:neverblock_abandon) do |databases|
            begun = @neverblock_goes_on && databases.any? { |one| one.equal?(@connection) }
            __send__(preparing, @connection, "") if begun
          end
        end

        # SQL may hold any bytes, and be UTF-16.
        def kind(sql)
          return unless sql.is_a?(String) && FIRST[sql.getbyte(0) || 255]

          wide = !sql.encoding.ascii_compatible?
          sql = (wide ? sql.encode("UTF-8", invalid: :replace, undef: :replace) : sql).b
          words = WORDS.match(sql) or return
          return :repeatable unless words[:begin]

          words[:immediate] ? :repeatable_begin : :begin
        end
      end

      # Prepended to SQLite3::Database.
      module Trace
        # Works like sqlite3's own method. A statement that {Waits.outside} repeats is told once.
        # @api private
        def trace(handler = nil, &block)
          handler ||= block
          super(handler && ->(sql) { handler.call(sql) unless Waits.again?(self) }, &nil)
        end
      end
    end
  end
end
