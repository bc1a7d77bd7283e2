# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement or an expectation each, better on one line

require "rails/helper"
require "rails/ledger"

# Transfers between accounts in transactions, hundreds at a time on 12 connections, while requests
# are cancelled and time out, connections are dropped and the database restarts. Whatever happens,
# no money is made or lost, no connection is lost, and nobody gets the answer to another's question.
# Each transfer is in one transaction or in none, as its code was told and its callbacks say.
module RailsTransfers
  ACCOUNTS = 20
  BALANCE = 1000
  TRANSFERS = Integer(ENV.fetch("NB_TRANSFERS", 500))

  # @param place [Databases::Place] which the loaded application uses
  def check(place)
    Account.insert_all!((1..ACCOUNTS).map { |id| { id: id, balance: BALANCE } })
    @ledger = Ledger.new
    @ended = Hash.new(0)
    run_all(place)
    puts(@ended) if ENV["NB_TRANSFERS"]
    assert_operator @ended[:done], :>, TRANSFERS / 10, @ended
    assert_operator @ended.size, :>, 3, "the faults did not happen: #{@ended}"
    check_end
  end

  private

  def run_all(place)
    NB.run do
      faults = [NB.async { drop_connections }, NB.async { restart(place) }]
      NB.map(1..TRANSFERS, concurrency: 200) { |number| attempt(number) }
      faults.last.wait
      faults.first.cancel.wait
    end
  end

  def attempt(number)
    task = NB.async { interrupted(number) { transfer(number) } }
    if (number % 5).zero?
      sleep(rand * 0.1)
      task.cancel
    end
    @ledger[number].told = task.wait.cancelled? ? :cancelled : task.value
    @ended[@ledger[number].told] += 1
  end

  def interrupted(number, &block)
    (number % 7).zero? ? NB.timeout(0.001 + (rand * 0.1), &block) : yield
    :done
  rescue ActiveRecord::ActiveRecordError, Timeout::Error => error # else it is an error of ours
    error.class
  end

  def transfer(number)
    amount = rand(1..50)
    Account.transaction do |transaction|
      @ledger.follow(number, transaction)
      move(number, [rand(1..ACCOUNTS), -amount], [rand(1..ACCOUNTS), amount]) { sleep(rand * 0.004) }
      assert_equal number, Account.with_connection { |c| c.select_value("SELECT #{number}") }
      @ledger[number].whole = true
    end
    assert_equal -number, Account.with_connection { |c| c.select_value("SELECT #{-number}") }
  end

  # The lower number first, so that they do not wait for each other.
  def move(number, *changes)
    changes.sort.each do |id, amount|
      Account.where(id: id).update_all(["balance = balance + ?", amount])
      @ledger.write(number, amount)
      yield
    end
  end

  def drop_connections
    loop do
      sleep(0.05)
      Account.with_connection { |connection| drop_one(connection) }
    rescue ActiveRecord::ActiveRecordError
      nil # it was this very one, or the database restarts
    end
  end

  def drop_one(connection)
    if connection.adapter_name == "PostgreSQL"
      connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'nb' " \
                         "ORDER BY random() LIMIT 1")
    else
      id = connection.select_value("SELECT id FROM information_schema.processlist WHERE user = 'nb' " \
                                   "ORDER BY rand() LIMIT 1")
      connection.execute("KILL #{id}")
    end
  end

  def restart(place)
    sleep(0.5)
    NB.offload { place.restart(signal: place.scheme == "postgresql" ? :QUIT : :KILL) }
    @ended[:restart] += 1
  end

  def check_end
    pool = Account.connection_pool
    assert_equal [0, 0, 0], pool.stat.values_at(:busy, :dead, :waiting), pool.stat
    NB.run do
      values = NB.map(1..48, concurrency: 48) do |i|
        Account.with_connection do |connection|
          connection.verify! # the last one to be dropped may not know yet
          connection.select_value("SELECT #{i}")
        end
      end
      assert_equal (1..48).to_a, values
    end
    assert_equal ACCOUNTS * BALANCE, Account.sum(:balance)
    assert_empty @ledger.faults
    assert_equal [0, 0], pool.stat.values_at(:busy, :dead), pool.stat
  end
end
# rubocop:enable Layout/LineLength
