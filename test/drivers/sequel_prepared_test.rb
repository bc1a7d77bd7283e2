# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "pg"
require "sequel"
require_relative "../support/databases"
require_relative "../support/holding_proxy"

# A statement that PostgreSQL has prepared when a cancel strikes can be called again on the same
# connection. With Sequel alone, in threads too, it "already exists" from then on.
class SequelPreparedTest < Minitest::Test
  AROUND = {
    "" => ->(_, &block) { block.call },
    "_in_a_transaction" => ->(db, &block) { db.transaction(&block) }
  }.freeze

  # Before PostgreSQL has it, or after.
  %i[request answer].product(AROUND.to_a).each do |side, (name, around)|
    define_method("test_an_interrupted_prepare_#{side}#{name}") do
      with_proxy do |proxy, db|
        db["SELECT 42 AS x"].prepare(:select, :nb_Answer)
        pid = db.get(Sequel.lit("pg_backend_pid()"))
        proxy.arm(/nb_Answer/, side)
        task = NB.async { around.call(db) { db.call(:nb_Answer) } }
        assert proxy.held(10)
        task.cancel.wait
        assert_equal [[{ x: 42 }]] * 3, Array.new(3) { db.call(:nb_Answer) }
        assert_equal pid, db.get(Sequel.lit("pg_backend_pid()"))
      end
    end
  end

  # Sequel gives the name to another statement: PostgreSQL is to forget the one, then prepare this.
  %i[request answer].product([/DEALLOCATE/, /nb_answer.*43/]).each_with_index do |(side, what), i|
    define_method("test_another_statement_of_that_name_#{i}") do
      with_proxy do |proxy, db|
        db["SELECT 42 AS x"].prepare(:select, :nb_answer)
        db.call(:nb_answer)
        db["SELECT 43 AS x"].prepare(:select, :nb_answer)
        proxy.arm(what, side)
        task = NB.async { db.call(:nb_answer) }
        assert proxy.held(10)
        task.cancel.wait
        assert_equal [[{ x: 43 }]] * 3, Array.new(3) { db.call(:nb_answer) }
      end
    end
  end

  # It is in doubt as well where the transaction goes on.
  def test_an_interrupted_prepare_in_a_transaction_that_goes_on
    with_proxy do |proxy, db|
      db["SELECT 42 AS x"].prepare(:select, :nb_Answer)
      proxy.arm(/nb_Answer/, :answer)
      answers = db.transaction do
        assert_raises(Timeout::Error) { Timeout.timeout(0.2) { db.call(:nb_Answer) } }
        [db.get(1), *db.call(:nb_Answer)]
      end
      assert_equal [1, { x: 42 }], answers
    end
  end

  private

  def with_proxy
    place = Databases.postgresql
    proxy = HoldingProxy.new(place.port, 0.5)
    NB.run do
      db = Sequel.connect("#{place.url.sub(%r{:\d+/}, ":#{proxy.port}/")}?sslmode=disable",
                          max_connections: 1, test: false, keep_reference: false)
      yield proxy, db
    ensure
      db&.disconnect
    end
  ensure
    proxy&.close
  end
end
