# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement or an expectation each, better on one line

require "minitest/autorun"
require_relative "../support/databases"
require_relative "../support/subprocess"
require "json"

# ActiveRecord in a program without Rails, each time in a process of its own.
class ActiveRecordDriverTest < Minitest::Test
  PROGRAM = <<~'RUBY'
    require "active_record"
    require "json"
    ActiveRecord::Base.establish_connection(JSON.parse(ENV.fetch("DATABASE")))
    ActiveRecord::Schema.verbose = false
    class Row < ActiveRecord::Base; self.table_name = "alone_rows"; end
    Row.with_connection { |connection| connection.create_table(:alone_rows, force: true) { |t| t.text :name } }
  RUBY

  # One raises in its transaction while the other writes.
  TURNS = <<~'RUBY'
    NB.run do
      gates = Array.new(2) { Thread::Queue.new }
      first = NB.async do
        Row.transaction do
          Row.create!(name: "rolled back")
          gates[0] << true
          gates[1].pop
          raise ActiveRecord::Rollback
        end
      end
      gates[0].pop
      NB.async { Row.create!(name: "kept") }.wait
      gates[1] << true
      first.wait
    end
    puts JSON.generate([Row.pluck(:name), ActiveSupport::IsolatedExecutionState.isolation_level, NB::Drivers.status.find { |one| one.name == "active_record" }.state])
  RUBY

  def setup = Databases.there?(:postgresql) || missing("PostgreSQL")

  def test_fibers_have_connections_and_transactions_of_their_own
    ["require 'neverblock'\n#{PROGRAM}", "#{PROGRAM}require 'neverblock'\n"].each do |program|
      assert_equal [["kept"], "fiber", "on"], run_program(program + TURNS)
    end
  end

  # The other one's is rolled back.
  def test_a_fiber_in_which_another_raises_goes_on_in_its_own_transaction
    answer = run_program(<<~RUBY)
      require "neverblock"
      #{PROGRAM}
      NB.run do
        first = fiber = nil
        first = NB.async do
          Row.transaction do
            fiber = Fiber.current
            sleep rescue Row.create!(name: "kept")
          end
        end
        NB.async do
          Row.transaction do
            Row.create!(name: "rolled back")
            fiber.raise("go on")
            first.wait
            raise ActiveRecord::Rollback
          end
        end.wait
      end
      puts JSON.generate(Row.pluck(:name))
    RUBY
    assert_equal ["kept"], answer
  end

  # As gems do that have a railtie.
  def test_rails_without_an_application
    program = "require 'rails'\nrequire 'neverblock'\n#{PROGRAM}#{TURNS}"
    assert_equal [["kept"], "fiber", "on"], run_program(program)
  end

  # In the thread's own state, also inside of an Enumerator.
  def test_outside_of_a_loop_all_is_as_it_was
    answer = run_program(<<~RUBY)
      require "neverblock"
      #{PROGRAM}
      open = Row.transaction { Enumerator.new { |values| values << Row.connection_pool.active_connection?&.transaction_open? }.next }
      puts JSON.generate([open, Thread.new { Row.connection_pool.active_connection? }.value])
    RUBY
    assert_equal [true, nil], answer
  end

  def test_the_names_of_rails_work
    answer = run_program(<<~RUBY, adapter: "neverblock_postgresql", connections: 3)
      require "neverblock"
      #{PROGRAM}
      puts JSON.generate([Row.connection_pool.size, Row.connection_db_config.adapter, Row.connection_pool.checkout_timeout])
    RUBY
    assert_equal [3, "postgresql", 60.0], answer
  end

  # Gathered fibers have copies, and keep out of a transaction.
  def test_fibers_that_are_gathered
    answer = run_program(<<~RUBY)
      require "neverblock"
      #{PROGRAM}
      Row.create!(name: "a")
      counts = NB.run do
        Row.count
        NB.gather(-> { Row.where(name: "b").scoping { sleep(0.02) && Row.count } }, -> { sleep(0.01) && Row.count })
      end
      refused = NB.run { Row.transaction { NB.gather(-> { Row.count }) } rescue $!.class.name }
      puts JSON.generate([counts, refused])
    RUBY
    assert_equal [[0, 1], "NB::Rails::OuterTransaction::RefusedError"], answer
  end

  # It is the thread's own code: what the thread has set decides where it writes.
  def test_the_block_of_a_loop_is_within_what_the_thread_does
    answer = run_program(<<~RUBY)
      require "neverblock"
      #{PROGRAM}
      Row.transaction do
        NB.run { Row.create!(name: "a") }
        raise ActiveRecord::Rollback
      end
      role = ActiveRecord::Base.connected_to(role: :reading) { NB.run { NB.gather(-> { ActiveRecord::Base.current_role }) << ActiveRecord::Base.current_role } }
      refused = NB.run { Row.transaction { NB.gather(-> { Row.count }) } rescue $!.class.name }
      beside = Row.transaction { NB.run { Row.create!(name: "b") && NB.async { Row.count }.value } }
      class Current < ActiveSupport::CurrentAttributes; attribute :user; end
      Current.user = 1
      users = NB.run { [Current.user, NB.async { (Current.user += 1).tap { sleep 0 } }.value, Current.user += 5] } << Current.user
      puts JSON.generate([Row.pluck(:name), role, refused, beside, users])
    RUBY
    assert_equal [["b"], %w[reading reading], "NB::Rails::OuterTransaction::RefusedError", 0, [1, 2, 6, 6]], answer
  end

  # As a server's fibers, which take one piece of work after the other.
  def test_a_leased_connection_comes_back_when_the_work_ends
    answer = run_pieces(6, <<~RUBY)
      connection = Row.lease_connection
      connection.begin_transaction if i == 3 # and never ends it
      Enumerator.new { |values| values << Row.lease_connection.select_value("SELECT 1") }.next
      sleep 0.01
      rows << [i, connection.open_transactions]
    RUBY
    assert_equal [Array.new(6) { |i| [i, i == 3 ? 1 : 0] }, [0, 0]], answer
  end

  # As `Row.connection` does in the block of a transaction, which would give it back by itself.
  def test_a_connection_that_was_leased_inside_of_a_block_comes_back
    answer = run_pieces(4, <<~RUBY)
      Row.public_send(%i[transaction with_connection][i % 2]) { Row.lease_connection.select_value("SELECT 1") }
      sleep 0.01
      rows << i
    RUBY
    assert_equal [[0, 1, 2, 3], [0, 0]], answer
  end

  # As GraphQL::Dataloader makes them. What such a fiber leaves in a transaction is not lent, either.
  def test_a_connection_that_was_leased_in_a_blocking_fiber_comes_back
    answer = run_pieces(3, <<~RUBY, fibers: 1)
      Fiber.new(blocking: true) do
        connection = Row.lease_connection
        rows << [i, connection.raw_connection.transaction_status]
        connection.execute("BEGIN") && Row.connection_pool.release_connection if i == 1
      end.resume
    RUBY
    assert_equal [[[0, 0], [1, 0], [2, 0]], [0, 0]], answer
  end

  def test_it_tells_when_the_level_is_set_back
    result = execute("require 'neverblock'\n#{PROGRAM}ActiveSupport::IsolatedExecutionState.isolation_level = :thread\nNB.run { 1 }\n")
    assert_match(/active_record: isolation_level is :thread again/, result.err)
  end

  def test_switched_off_it_is_left_alone
    result = execute("require 'neverblock'\n#{PROGRAM}#{TURNS}", env: { "NB_DRIVERS" => "-active_record" })
    assert_equal %w[thread off], JSON.parse(result.out).drop(1)
  end

  private

  # Pieces of work for some fibers, one connection between them: the work may use i, and fills rows.
  # @return [Array] the rows in order, and how many connections are busy and dead in the end
  def run_pieces(count, work, fibers: 2)
    run_program(<<~RUBY, adapter: "neverblock_postgresql", connections: 1, checkout_timeout: 5)
      require "neverblock"
      #{PROGRAM}
      rows = []
      NB.run do
        fibers = NB::FiberPool.new(#{fibers})
        #{count}.times { |i| fibers.spawn {
        #{work}
        } }
        fibers.wait
      end
      puts JSON.generate([rows.sort, Row.connection_pool.stat.slice(:busy, :dead).values])
    RUBY
  end

  def run_program(program, **options)
    result = execute(program, **options)
    assert_empty result.err
    JSON.parse(result.out)
  end

  def execute(program, env: {}, adapter: "postgresql", **more)
    database = { adapter: adapter, **Databases.postgresql.options, **more }
    Subprocess.ruby(program, env: { **ENV.to_h, "DATABASE" => JSON.generate(database), **env }, loaded: false)
  end
end
# rubocop:enable Layout/LineLength
