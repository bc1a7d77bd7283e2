# frozen_string_literal: true

require_relative "registry"

# `busy_timeout=` of sqlite3 sleeps in C while another connection holds the lock. Here it is a busy
# handler that sleeps in Ruby, so that other fibers go on. SQLite allows no other use of a
# connection meanwhile: it belongs to one fiber at a time. Everything else that sqlite3 does holds
# Ruby's lock, in a thread as well as here.
module NB
  module Drivers
    # The busy handler.
    class SQLiteWait
      # Seconds between two looks at the lock; SQLite's own begins with 1 ms and goes up to 100 ms.
      INTERVAL = 0.002

      def initialize(milliseconds)
        @seconds = milliseconds / 1000.0
      end

      # @return [Boolean] whether SQLite shall try again
      def call(count)
        now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        @deadline = now + @seconds if count.zero?
        now < @deadline && pause
      end

      private

      # An exception must not leave SQLite's C frames: a timeout ends the wait, with SQLite's own
      # BusyException, and a cancel comes again at the fiber's next wait. (In a plain thread it is
      # as with sqlite3's own busy_handler_timeout=.)
      def pause
        sleep INTERVAL
        true
      rescue Exception => error # rubocop:disable Lint/RescueException -- see above
        raise unless Repairs.loop_here

        raise_later(Fiber.current, error) if error.is_a?(Cancelled)
        false
      end

      def raise_later(fiber, error)
        Fiber.schedule do
          sleep 0
          fiber.raise(error) if fiber.alive?
        end
      end
    end
  end
end

NB::Drivers.register("sqlite3", constant: "SQLite3::Database", version: "SQLite3::VERSION",
                                versions: [">= 1.6", "< 3"]) do |driver|
  waiting = Module.new do
    define_method(:busy_timeout=) do |milliseconds|
      time = milliseconds.is_a?(Numeric) && milliseconds.positive?
      next super(milliseconds) unless driver.on? && time

      wait = NB::Drivers::SQLiteWait.new(milliseconds)
      busy_handler { |count| wait.call(count) }
    end
    define_method(:busy_timeout) { |milliseconds| self.busy_timeout = milliseconds }
  end
  SQLite3::Database.prepend(waiting)
end
