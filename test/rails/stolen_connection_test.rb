# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement or an expectation each, better on one line

require "rails/helper"

# `disconnect!` and `clear_reloadable_connections!` take the connections that others keep too long.
# Rails walks through the pool's list meanwhile, and none may be passed over.
class RailsStolenConnectionTest < Minitest::Test
  # Seconds that they wait: twice this.
  RailsApp.load("neverblock_postgresql", APP_CONNECTIONS: "4", APP_CHECKOUT_TIMEOUT: "0.1")

  def setup = Account.delete_all

  %i[disconnect! clear_reloadable_connections!].each do |method|
    define_method("test_#{method}_takes_all_connections_in_transactions") do
      NB.run do
        gate = Thread::Queue.new
        tasks = Array.new(3) { |number| NB.async { write(number, gate) } }
        sleep(0.001) until gate.num_waiting == 3
        pool.public_send(method)
        gate.close
        assert_equal ["lost"] * 3, NB.timeout(20) { tasks.map(&:value) }
      end
      assert_equal [10, 11, 12], Account.order(:balance).pluck(:balance), "half of a transaction that has committed"
      available = pool.instance_variable_get(:@available).instance_variable_get(:@queue)
      assert_empty available - pool.connections, "lent, and unknown to the pool"
    end
  end

  private

  def pool = Account.connection_pool

  # The second row is beside the transaction, whose connection is gone.
  def write(number, gate)
    Account.transaction do
      Account.create!(balance: number)
      gate.pop
      Account.create!(balance: 10 + number)
    end
    "committed"
  rescue ActiveRecord::ConnectionNotEstablished
    "lost"
  end
end
# rubocop:enable Layout/LineLength
