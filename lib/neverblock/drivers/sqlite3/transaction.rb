# frozen_string_literal: true

module NB
  module Drivers
    module SQLite
      # Prepended to SQLite3::Database. Its own `transaction` rolls back after a StandardError only:
      # if a timeout or a cancel leaves the block in the middle, it commits what is there by then.
      # In a loop, it rolls back after every exception, as those of pg, Sequel and ActiveRecord do.
      class Transaction < Module
        # Ends the gem's own block.
        class Left < StandardError; end
        private_constant :Left

        # @param driver [Driver]
        def initialize(driver)
          super()
          mine = self
          define_method(:transaction) do |*arguments, &block|
            next super(*arguments, &block) unless block && driver.in_loop?

            mine.whole(block) { |whole| super(*arguments, &whole) }
          end
        end

        # @param block [Proc] of the transaction
        # @yieldparam whole [Proc] what the gem is to call
        # @return the value of the gem's method
        # @raise [Exception] whatever has left the block
        # @scheduling as the block
        # @api private
        def whole(block)
          struck = nil
          yield(lambda do |database|
            block.call(database)
          rescue StandardError
            raise
          rescue Exception => struck # rubocop:disable Lint/RescueException -- raised again below
            raise Left
          end)
        rescue StandardError
          struck ? raise(struck, cause: struck.cause) : raise
        end
      end
    end
  end
end
