# frozen_string_literal: true

require "rails/losses"

# A block of `requires_new: true` fails so that its transaction cannot go on, and the outer block
# rescues that. What the outer block writes afterwards is not committed by itself.
class RailsLostSavepointTest < Minitest::Test
  include RailsLosses

  MODELS.each_key do |adapter|
    define_method("test_#{adapter}_is_lost_while_it_releases_the_savepoint") do
      take(adapter)
      assert_taken_back do
        assert_raises(ActiveRecord::ConnectionNotEstablished) do
          outer(["outer"]) do |connection|
            losing(connection, :release_savepoint) { inner }
          rescue ActiveRecord::ConnectionFailed
            nil
          end
        end
      end
    end

    # The first interruption ends the inner block, and the second one what that has to undo.
    define_method("test_#{adapter}_is_interrupted_while_it_rolls_back_to_the_savepoint") do
      take(adapter)
      assert_taken_back do
        assert_raises(ActiveRecord::ConnectionNotEstablished) do
          outer(["outer"]) { |connection| interrupt_twice(connection, :exec_rollback_to_savepoint) }
        end
      end
    end

    # Here the block of a savepoint is the outer one, and has written nothing itself.
    define_method("test_#{adapter}_is_interrupted_while_it_restarts_the_savepoint") do
      take(adapter)
      assert_taken_back do
        assert_raises(ActiveRecord::ConnectionNotEstablished) do
          outer(["outer"]) do |connection|
            @row.transaction(requires_new: true) do
              interrupt_twice(connection, :exec_rollback_to_savepoint)
              @row.create!(name: "after")
            end
          end
        end
      end
    end

    define_method("test_#{adapter}_is_interrupted_while_it_restarts_the_transaction") do
      take(adapter)
      NB.run do
        outer([]) { |connection| interrupt_twice(connection, :exec_restart_db_transaction) }
      end
      assert_equal ["after"], @watch.pluck(:name)
      assert_whole
    end
  end

  private

  # Where it has written something, it cannot go on; where not, it begins anew.
  def outer(names)
    @row.transaction do
      names.each { |name| @row.create!(name: name) }
      @row.with_connection { |connection| yield connection }
      @row.create!(name: "after")
    end
  end

  def inner
    @row.transaction(requires_new: true) do
      @row.create!(name: "inner")
      yield if block_given?
    end
  end

  def interrupt_twice(connection, step)
    second = Class.new(StandardError)
    at(connection, step, make: -> { NB.timeout(0.01, second) { sleep } }) do
      assert_raises(second) { inner { raise IOError } }
    end
  end
end
