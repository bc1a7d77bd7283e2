# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement or an expectation each, better on one line

require "rails/helper"

# What fibers that a request starts have from it: the same, of their own, or nothing; and that what
# they do with it stays with them.
class RailsInheritanceTest < Minitest::Test
  RailsApp.load("neverblock_postgresql")

  # What of ActiveSupport::IsolatedExecutionState Rails 7.2 and 8.1 use, beside InheritedState::LEFT,
  # as its source says: values, and what is copied.
  KNOWN = %w[
    :active_record_prevent_writes :active_record_prohibit_shard_swapping :active_record_connection_handler
    :active_record_transaction_isolation isolation_level_key :xml_mini_backend :beginning_of_week :time_zone
    :action_view_caching local_level_key @__thread_mattr_#{sym} self.class.active_key
    :active_record_scope_registry :active_record_connected_to_stack :active_record_suppressor_registry
    :active_record_no_touching_classes :active_support_error_reporter_assertions
    :active_support_event_reporter_assertions self @thread_key
  ].freeze

  # Any gem may keep something there.
  class Registry
    attr_accessor :list
  end

  def setup
    Account.delete_all
    Account.insert_all!((1..10).map { |id| { id: id, balance: id } })
  end

  def teardown = assert_equal([0, 0], Account.connection_pool.stat.values_at(:busy, :dead))

  def test_a_scope_is_seen_by_nobody_else
    in_request do
      Account.count # has made the registry
      counts = NB.gather(-> { count_slowly(Account.where(balance: ..5)) }, -> { sleep(0.01) && Account.count },
                         -> { count_slowly(Account.where(balance: 6..)) }, -> { sleep(0.03) && Account.count })
      assert_equal [5, 10, 5, 10], counts
      assert_equal 10, Account.count
    end
    in_request { assert_equal 10, Account.count }
  end

  def test_the_scope_of_the_request_goes_along
    in_request do
      Account.where(balance: 1).scoping do
        assert_equal [1, 10], NB.gather(-> { Account.count }, -> { Account.unscoped { Account.count } })
        assert_equal 1, Account.count
      end
    end
  end

  def test_registries_are_not_shared
    in_request do
      Account.lease_connection.unprepared_statement do
        ActiveRecord::ExplainRegistry.start if ActiveRecord::ExplainRegistry.respond_to?(:start)
        mine = registries
        theirs = NB.gather(-> { Account.count && registries }).first
        mine.zip(theirs) { |one, other| refute_same one, other }
      end
    end
  end

  # A later Rails may bring another one, to be decided about.
  def test_all_that_rails_keeps_is_known
    pattern = /IsolatedExecutionState\[([^\]]+)\]/
    found = %w[activesupport activerecord actionpack actionview activejob railties].flat_map do |name|
      Dir["#{Gem.loaded_specs.fetch(name).full_gem_path}/lib/**/*.rb"].flat_map { |path| File.read(path).scan(pattern) }
    end
    left = NB::Rails::InheritedState::LEFT.map(&:inspect)
    assert_operator found.size, :>, 30
    assert_empty found.flatten.uniq - KNOWN - left - ["KEY"], "decide what becomes of it in InheritedState"
  end

  def test_lists_are_copied_attributes_go_along_and_what_is_unknown_stays
    in_request do
      state = ActiveSupport::IsolatedExecutionState
      state[:of_a_gem] = Registry.new
      state[:list] = [1]
      state["attr_of_a_class"] = registry = Registry.new
      NB.gather(-> { state[:list] << 2 })
      seen = NB.gather(-> { [state[:of_a_gem], state[:list], state["attr_of_a_class"]] }).first
      assert_equal [nil, [1], registry], seen
    end
  end

  # audited keeps its user in a Hash there, and changes it for its blocks.
  def test_what_a_fiber_changes_in_a_hash_or_list_of_current_is_its_own
    change = lambda do |id|
      Current.person[:name] = id
      Current.person[:list] = Current.person[:list] + [id]
      sleep(0.001)
      Current.person
    end
    in_request do
      Current.person = { name: "mary", list: [] }
      seen = NB.map([1, 2, 3], concurrency: 3, &change) << NB.async { change.call(4) }.value
      assert_equal (1..4).map { |id| { name: id, list: [id] } }, seen
      assert_equal({ name: "mary", list: [] }, Current.person)
    end
  end

  # A fiber that wrote encrypted text would write it plain while another reads without decrypting.
  def test_each_fiber_has_encryption_contexts_of_its_own
    encryption = ActiveRecord::Encryption
    encryptor = -> { encryption.context.encryptor.class }
    in_request do
      encryption.without_encryption { encryptor.call } # leaves an empty list
      plain = encryptor.call
      first = Thread::Queue.new
      last = Thread::Queue.new
      seen = NB.gather(-> { encryption.without_encryption { first << true && last.pop } },
                       -> { first.pop && encryptor.call.tap { last << true } })
      assert_equal [true, plain], seen
      encryption.without_encryption do
        NB.gather(-> { encryption.protecting_encrypted_data { sleep(0.001) } }, -> { first << encryptor.call })
        assert_equal encryption::NullEncryptor, first.pop
      end
    end
  end

  def test_queries_that_run_ahead
    in_request do
      assert_equal [10, 10, 55], NB.gather(-> { Account.all.load_async.to_a.size }, -> { Account.async_count.value },
                                           -> { Account.async_sum(:balance).value })
      assert_equal 10, NB.async { Account.async_count.value }.value
    end
  end

  # They would not see what it has written, and wait for its rows forever.
  def test_gathering_in_a_transaction_is_refused
    in_request do
      Account.transaction do
        Account.find(1).update!(balance: 100)
        error = assert_raises(NB::Rails::OuterTransaction::RefusedError) do
          NB.timeout(10) { NB.gather(-> { Account.find(1).update!(balance: 200) }) }
        end
        assert_match(/inside a transaction/, error.message)
        nested = -> { NB.map([1], concurrency: 1) { Account.count } }
        assert_raises(NB::Rails::OuterTransaction::RefusedError) { NB.gather(nested) }
      end
      assert_equal 100, Account.find(1).balance
    end
  end

  def test_what_may_be_gathered_in_a_transaction
    in_request do
      late = nil
      NB.group do |group|
        gate = Thread::Queue.new
        Account.transaction do
          Account.find(1).update!(balance: 100)
          assert_equal [3], NB.gather(-> { sleep(0.001) && 3 })
          assert_equal 1, NB.async { Account.find(1).balance }.value # a unit of its own
          nested = -> { NB.async { Account.find(1).balance }.value }
          assert_equal [1], NB.gather(nested)
          late = group.async { gate.pop && Account.find(1).balance }
        end
        gate << true
      end
      assert_equal 100, late.value
    end
  end

  def test_an_async_fiber_has_what_the_request_had
    gate = Thread::Queue.new
    NB.run do
      task = request do
        I18n.locale = :fr
        Current.person = "mary"
        ActiveRecord::Base.connected_to(role: :reading) do
          NB.async { gate.pop && [Current.person, I18n.locale, ActiveRecord::Base.current_role, Account.count] }
        end
      end
      I18n.locale = :en
      assert_nil Current.person
      gate << true
      assert_equal ["mary", :fr, :reading, 10], task.value
    end
  end

  # In an action, Rails puts a proxy in the place of I18n's configuration.
  class SpeakingController < ActionController::Base
    WAYS = {
      gather: ->(parts) { NB.gather(*parts) },
      map: ->(parts) { NB.map(parts, concurrency: 2, &:call) },
      first: ->(parts) { parts.map { |part| NB.first(part) } },
      async: ->(parts) { parts.map { |part| NB.async(&part) }.map(&:value) },
      group: lambda do |parts|
        tasks = []
        NB.group { |group| parts.each { |part| tasks << group.async(&part) } }
        tasks.map(&:value)
      end
    }.freeze

    def show
      I18n.with_locale(:fr) do
        said = WAYS.fetch(params[:way].to_sym).call([speaking(:de), speaking(:en)])
        render(json: [*said, I18n.locale])
      end
    end

    private

    def speaking(locale)
      lambda do
        heard = [I18n.locale]
        I18n.with_locale(locale) { sleep(0.01) && (heard << I18n.locale) }
        heard << I18n.locale
      end
    end
  end

  SpeakingController::WAYS.each_key do |way|
    define_method("test_fibers_of_an_action_have_a_locale_of_their_own_#{way}") do
      in_request do
        _, _, body = SpeakingController.action(:show).call(Rack::MockRequest.env_for("/?way=#{way}"))
        text = +""
        body.each { |part| text << part }
        assert_equal [%w[fr de fr], %w[fr en fr], "fr"], JSON.parse(text)
        assert_equal :en, I18n.locale
      end
    end
  end

  def test_an_async_fiber_is_a_unit_of_work
    runs = 0
    Rails.application.executor.to_run { runs += 1 }
    in_request do
      Current.person = "mary"
      before = runs
      task = NB.async do
        Account.lease_connection
        Current.person = "bob"
        [Rails.application.executor.active?, runs - before]
      end
      assert_equal [true, 1], task.value
      assert_equal "mary", Current.person
      refute Account.connection_pool.active_connection?
    end
  end

  # It may outlive the block, after which nobody enqueues what is in the buffer.
  def test_an_async_fiber_enqueues_jobs_itself
    require "good_job/bulk"
    buffer = -> { GoodJob::Bulk.current_buffer.class }
    in_request do
      seen = []
      GoodJob::Bulk.capture { seen.push(*NB.gather(buffer), NB.async(&buffer).value, buffer.call) }
      assert_equal [GoodJob::Bulk::Buffer, NilClass, GoodJob::Bulk::Buffer], seen
    end
  end

  # Nor would anybody run what is in this one, where GoodJob runs jobs inline.
  def test_an_async_fiber_runs_inline_jobs_itself
    require "good_job/adapter/inline_buffer"
    buffers = GoodJob::Adapter::InlineBuffer
    deferred = -> { buffers.defer? }
    in_request do
      seen = []
      buffers.capture { seen.push(*NB.gather(deferred), NB.async(&deferred).value, deferred.call) }
      assert_equal [true, false, true], seen
    end
  end

  # The child has no loop, and its state is that of a thread.
  def test_a_process_begins_with_what_the_request_has
    seen = -> { [Current.person, I18n.locale, Time.zone.name, ActiveRecord::Base.current_role, Account.count] }
    in_request do
      Current.person = "mary"
      I18n.locale = :fr
      Time.zone = "Tokyo"
      ActiveRecord::Base.connected_to(role: :reading) do
        Account.where(balance: 1).scoping { assert_equal ["mary", :fr, "Tokyo", :reading, 1], NB.in_process(&seen) }
      end
    ensure
      I18n.locale = :en
    end
  end

  def test_a_process_keeps_out_of_a_transaction
    in_request do
      refused = assert_raises(NB::Rails::OuterTransaction::RefusedError) do
        Account.transaction { NB.in_process { Account.count } }
      end
      assert_includes refused.message, "in_process"
      assert_equal 10, NB.in_process { Account.count }
    end
  end

  private

  def in_request(&block) = NB.run { request(&block) }
  def request(&block) = Rails.application.executor.wrap(&block)

  # As a class method that is called on a relation.
  def count_slowly(relation)
    relation.scoping do
      sleep(0.02)
      Account.count
    end
  end

  def registries
    connection = Account.lease_connection
    [ActiveRecord::Scoping::ScopeRegistry.instance, ActiveRecord::ExplainRegistry.send(:instance),
     connection.send(:prepared_statements_disabled_cache)]
  end
end
# rubocop:enable Layout/LineLength
