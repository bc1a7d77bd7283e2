# frozen_string_literal: true

module NB
  module Drivers
    module SQLite
      # Prepended to SQLite3::Database. Opens connections without SQLite's mutex.
      #
      # A busy handler waits in the middle of a statement. SQLite would keep the connection's mutex
      # locked meanwhile, for the thread that waits, and Ruby's lock would be free. So if another
      # thread's garbage collection freed a statement of that connection, it would wait for the
      # mutex with Ruby's lock, and the handler could never return. A child forked meanwhile would
      # wait for its copy of the mutex, which nobody unlocks.
      #
      # sqlite3 never gives Ruby's lock back inside SQLite except in Ruby code that SQLite calls, so
      # the mutex keeps nobody apart but there. While a busy handler waits, {Sharing} does.
      class Opening < Module
        # @param database [SQLite3::Database]
        # @return [Boolean] whether it has no mutex
        # @api private
        def self.bare?(database) = database.instance_variable_get(:@neverblock_bare) ? true : false

        # @param driver [Driver]
        def initialize(driver)
          super()
          open = ::SQLite3::Constants::Open
          define_method(:open_v2) do |file, mode, vfs|
            bare = driver.on? && mode.is_a?(Integer) && mode.nobits?(open::FULLMUTEX)
            @neverblock_bare = bare
            super(file, bare ? mode | open::NOMUTEX : mode, vfs)
          end
          private(:open_v2)
        end
      end
    end
  end
end
