# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "neverblock"
require "stripe"
require_relative "../support/subprocess"
require_relative "../support/token_server"

# Stripe keeps a connection per thread. In a loop, a call uses the connection of an earlier one, in
# whichever fiber, and has it to itself.
class StripeTest < Minitest::Test
  LIMIT = 60
  # From a path, the answer to it.
  ANSWER = ->(path) { JSON.generate(id: path[%r{([^/?]+)(\?.*)?\z}, 1], object: "customer") }

  def setup
    @server = TokenServer.new(&ANSWER)
    Stripe.api_key = "sk_test"
    Stripe.api_base = @server.origin
    Stripe.enable_telemetry = false
    Stripe.max_network_retries = 0
    Stripe.config.ca_store # the first connection loads it: then Stripe's key for it is another
  end

  def teardown
    Stripe::APIRequestor.clear_all_connection_managers
    @server.close
  end

  def fetch(id) = Stripe::Customer.retrieve(id).id
  def inside(&block) = NB.run { NB.timeout(LIMIT, &block) }

  def test_one_fiber_after_the_other_uses_the_same_connection
    inside { 20.times { |i| NB.async { assert_equal "cus_#{i}", fetch("cus_#{i}") }.value } }
    assert_equal [1, 1], [@server.accepted, @server.open]
  end

  def test_fibers_at_once_have_connections_to_themselves
    inside do
      ids = Array.new(20) { |i| Array.new(3) { |j| "cus_#{i}_#{j}" } }
      asking = ids.map { |mine| NB.async { mine.map { |id| fetch(id) } } }
      assert_equal ids, asking.map(&:value)
    end
    assert_operator @server.accepted, :<=, 20
  end

  def test_a_call_that_was_interrupted_costs_its_connection
    inside do
      fetch("first")
      assert_raises(Timeout::Error) { NB.timeout(0.05) { fetch("held") } }
      held = NB.async { fetch("held") }
      sleep 0.001 until @server.accepted == 2
      held.cancel.wait
      assert_equal "then", fetch("then")
      sleep 0.001 until @server.open == 1
    end
    assert_equal 3, @server.accepted
  end

  def test_what_nobody_has_used_for_long_is_closed
    inside do
      Array.new(3) { |i| NB.async { fetch("cus_#{i}") } }.each(&:value)
      assert_equal 3, @server.open
      ObjectSpace.each_object(Stripe::ConnectionManager) do |one|
        one.instance_variable_set(:@last_used, one.last_used - 121)
      end
      fetch("last")
      sleep 0.001 until @server.open == 1
    end
  end

  def test_clearing_closes_all
    inside { fetch("first") }
    Stripe::APIRequestor.clear_all_connection_managers
    Thread.pass until @server.open.zero?
    inside { assert_equal "then", fetch("then") }
  end

  def test_each_configuration_has_connections_of_its_own
    clients = %w[sk_a sk_b].map { |key| Stripe::StripeClient.new(key, api_base: @server.origin) }
    inside do
      6.times { |i| assert_equal "cus_#{i}", clients[i % 2].v1.customers.retrieve("cus_#{i}").id }
    end
    assert_equal [2, 2], [@server.accepted, @server.open]
  end

  def test_the_librarys_errors_are_the_same
    @server.close
    errors = [->(&block) { block.call }, ->(&block) { NB.run(&block) }].map do |world|
      world.call { assert_raises(Stripe::APIConnectionError) { fetch("none") } }.message
    end
    assert_equal 1, errors.uniq.size
  end

  def test_outside_of_a_loop_each_thread_has_its_own
    3.times { |i| Thread.new { 2.times { assert_equal "t#{i}", fetch("t#{i}") } }.join }
    assert_equal [3, 3], [@server.accepted, @server.open]
  end

  def test_a_forked_child_leaves_its_parents_alone
    result = Subprocess.ruby(<<~RUBY)
      require "stripe"
      Stripe.api_key, Stripe.api_base = "sk_test", "#{@server.origin}"
      fetch = ->(id) { NB.run { Stripe::Customer.retrieve(id).id } }
      print fetch.call("parent")
      Process.wait(fork { print fetch.call("child") })
      print fetch.call("parent")
    RUBY
    assert_equal "parentchildparent", result.out, result.err
    assert_equal 2, @server.accepted
  end
end
