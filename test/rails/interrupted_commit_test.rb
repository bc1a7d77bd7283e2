# frozen_string_literal: true

require "rails/losses"
require "support/holding_proxy"

# PostgreSQL has carried a COMMIT out, its answer is late, and the wait for it is interrupted twice,
# or the connection is lost meanwhile: nobody knows the outcome, so no callback tells one.
class RailsInterruptedCommitTest < Minitest::Test
  include RailsLosses

  # The same rows, through the proxy.
  class Late < ActiveRecord::Base
    self.table_name = "restored_rows"
  end

  def setup
    take("postgresql")
    @proxy = HoldingProxy.new(Databases.postgresql.port, 30)
    options = @row.connection_db_config.configuration_hash
    Late.establish_connection(**options, port: @proxy.port, sslmode: "disable")
  end

  def teardown
    @proxy.release
    Late.remove_connection
    @proxy.settle
    @proxy.close
  end

  def test_a_second_interruption = assert_tells_nothing { interrupt(IOError) }

  def test_a_lost_connection = assert_tells_nothing { @raw.socket_io.close_read }

  def test_the_answer_comes
    told = told_of { @proxy.release }
    assert_equal [:commit], told
  end

  private

  def assert_tells_nothing(&block)
    assert_empty(told_of(&block))
    assert_equal [0, 0], Late.connection_pool.stat.values_at(:busy, :dead)
  end

  # Interrupts the COMMIT when it has been carried out, and yields.
  def told_of
    told = []
    NB.run do
      task = NB.async { write(told) }
      sleep(0.002) until @watch.exists?
      interrupt(EOFError)
      yield
      assert_includes [EOFError, IOError], task.value
    end
    told
  end

  def write(told)
    @fiber = Fiber.current
    Late.transaction do |transaction|
      transaction.after_commit { told << :commit }
      transaction.after_rollback { told << :rollback }
      Late.create!(name: "late")
      @raw = Late.with_connection { |one| one.instance_variable_get(:@raw_connection) }
      @proxy.arm(/COMMIT/, :answer)
    end
  rescue EOFError, IOError => error
    error.class
  end

  def interrupt(type)
    error = type.new
    NB::Interruption.deliver(Fiber.scheduler, @fiber, error)
    sleep(0.002) until error.backtrace # it is raised
  end
end
