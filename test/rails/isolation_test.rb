# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement or an expectation each, better on one line

require "rails/helper"
require "neverblock/server"

# What belongs to one request, in hundreds of them that take turns on one thread.
class RailsIsolationTest < Minitest::Test
  RailsApp.load("neverblock_sqlite3")

  REQUESTS = 500
  ZONES = %w[UTC Hawaii Tokyo].freeze
  NOTHING = [nil, nil, nil, "en", "UTC", nil].freeze

  def test_interleaved_requests_do_not_see_each_other
    answers = RailsApp.serve(fibers: 64) do |port|
      NB.run { NB.map(1..REQUESTS, concurrency: 128) { |id| [id, get(port, "/isolation?id=#{id}")] } }
    end
    answers.each do |id, body|
      assert_equal expected(id), body.fetch("seen"), "request #{id}"
      # I18n keeps a locale until it is set anew, also between requests of a thread.
      assert_equal NOTHING.values_at(0..2, 5), body.fetch("before").values_at(0..2, 5), "request #{id}"
    end
    assert_equal 0, ActiveRecord::Base.connection_pool.stat[:busy]
  end

  def test_the_locale_of_a_fiber_is_its_own
    seen = NB.run do
      NB.map(%i[en de fr] * 20, concurrency: 60) do |locale|
        I18n.locale = locale
        sleep(rand * 0.01)
        [locale, I18n.locale]
      end
    end
    assert(seen.all? { |set, read| set == read }, seen.inspect)
  end

  # As I18n 1.14.8 does on every Ruby, and newer ones on Ruby before 3.2.
  PER_THREAD = <<~'RUBY'
    def I18n.config = Thread.current.thread_variable_get(:i18n_config) || self.config = I18n::Config.new
    def I18n.config=(value)
      Thread.current.thread_variable_set(:i18n_config, value)
    end
  RUBY

  def test_a_locale_per_thread_is_noticed
    [["", RUBY_VERSION < "3.2"], [PER_THREAD, true]].each do |change, shared|
      program = "require 'rails'; require 'neverblock'; #{change}; I18n.locale = :en
        print NB::Rails::Locale.shared?, I18n.locale; NB::Rails::Locale.install
        print NB.run { NB.map(%i[de fr], concurrency: 2) { |locale| I18n.available_locales = %i[en de fr]; I18n.locale = locale; sleep 0.01; I18n.locale } }"
      output, = RailsApp.run(RbConfig.ruby, "-W0", "-I#{RailsApp::LIB}", "-e", program)
      assert_equal "#{shared}en[:de, :fr]", output, change
    end
  end

  # Blocking and not; what they do belongs to the request, and to its transaction.
  INNER = [->(&work) { Enumerator.new { |values| values << work.call }.next },
           ->(&work) { Fiber.new(&work).resume }].freeze

  def test_fibers_within_a_request_see_what_it_sees
    NB.run do
      NB.map(INNER * 10, concurrency: 20) do |inner|
        Rails.application.executor.wrap { look_from(inner, rand(1000)) }
      end
    end
    assert_equal 0, ActiveRecord::Base.connection_pool.stat[:busy]
  end

  # On a thread of Puma's, a job's or the console's too, as in Rails.
  def test_fibers_on_a_thread_without_a_loop_see_what_it_sees
    INNER.each do |inner|
      Thread.new { Rails.application.executor.wrap { look_from(inner, 1) } }.join
      Account.transaction do
        Account.create!(balance: 1)
        assert_equal [1, 1], [Account.count, inner.call { Account.count }]
        raise ActiveRecord::Rollback
      end
    end
  end

  # Waits before its first byte, so requests overlap in that part of Rails that waits for it.
  class WaitingController < ActionController::Base
    include ActionController::Live

    GATES = Hash.new { |all, name| all[name] = Thread::Queue.new }

    def show
      GATES[params[:name]].pop
      response.stream.write(Current.person)
    ensure
      response.stream.close
    end
  end

  def test_a_fiber_silences_its_own_deprecations
    [ActiveSupport::Deprecation.new("9", "a gem"), ActiveSupport.deprecator].each do |deprecator|
      told = listen(deprecator)
      NB.run do
        silent = NB.async { deprecator.silence { sleep(0.02) && deprecator.warn("silent") } }
        sleep(0.005)
        deprecator.warn("loud")
        silent.wait
        deprecator.silence { NB.gather(-> { deprecator.warn("silent, too") }) }
      end
      assert_equal ["loud"], told
    end
  end

  # The first to come is the first to go.
  def test_a_fiber_allows_its_own_deprecations
    deprecator = ActiveSupport::Deprecation.new("9", "a gem")
    deprecator.disallowed_warnings = :all
    deprecator.disallowed_behavior = :raise
    NB.run do
      NB.gather(*[0.01, 0.02].map do |seconds|
        -> { deprecator.allow([/fine/]) { sleep(seconds) } }
      end, lambda {
        sleep(0.005)
        assert_raises(ActiveSupport::DeprecationException) { deprecator.warn("fine elsewhere") }
      })
      assert_raises(ActiveSupport::DeprecationException) { deprecator.warn("fine before") }
    end
  end

  # The first to come is the first to go, and the thread's own code runs meanwhile.
  def test_live_requests_that_overlap_leave_the_thread_alone
    Current.person = "the thread"
    NB.run do
      requests = %w[a b].to_h { |name| [name, NB.async { live(name) }] }
      sleep(0.001) until WaitingController::GATES.sum { |_, gate| gate.num_waiting } == 2
      requests.each do |name, request|
        assert_equal "the thread", Current.person
        WaitingController::GATES[name].close
        assert_equal name, request.value
      end
    end
    assert_equal "the thread", Current.person
  ensure
    Current.reset
  end

  # Ends by what ends more than itself elsewhere.
  class EndingController < ActionController::Base
    include ActionController::Live

    def show
      response.stream.write("before")
      params[:name] == "exit" ? exit(3) : raise(NoMemoryError, "no room")
    ensure
      response.stream.close
    end
  end

  { threads: ->(&block) { block.call }, fibers: ->(&block) { NB.run(&block) } }.each do |mode, run|
    %w[exit memory].each do |name|
      define_method("test_#{name}_ends_a_live_action_alone_with_#{mode}") do
        skip "Rails #{Rails.version} ends the program" if
          mode == :threads && !ActionController::Live.respond_to?(:live_thread_pool_executor)

        logger, Concurrent.global_logger = Concurrent.global_logger, Concurrent::NULL_LOGGER
        _, reports = capture_io { run.call { assert_equal "before", live(name, EndingController) } }
        assert_equal mode == :fibers ? 1 : 0, reports.scan(/ended an action of .*Live:/).size
      ensure
        Concurrent.global_logger = logger if logger
      end
    end
  end

  private

  # @return [Array<String>] gets the warnings
  def listen(deprecator)
    told = []
    deprecator.behavior = ->(message, *) { told << message[/WARNING: (\w+)/, 1] }
    told
  end

  def live(name, controller = WaitingController)
    Rails.application.executor.wrap do
      Current.person = name
      _, _, body = controller.action(:show).call(Rack::MockRequest.env_for("/?name=#{name}"))
      parts = []
      body.each { |part| parts << part }
      parts.join
    end
  end

  def look_from(inner, id)
    I18n.locale = :de
    Current.person = id
    Account.lease_connection
    seen = inner.call do
      sleep(rand * 0.01)
      [I18n.locale, Current.person, ActiveRecord::Base.connection_pool.active_connection?]
    end
    assert_equal [:de, id, Account.lease_connection], seen
  end

  def get(port, path)
    response = Net::HTTP.get_response(URI("http://127.0.0.1:#{port}#{path}"))
    assert_equal "200", response.code, response.body[0, 2000]
    JSON.parse(response.body)
  end

  def expected(id)
    { "current" => id, "local" => id, "store" => id, "locale" => %w[en de fr][id % 3],
      "zone" => ZONES[id % 3], "session" => id, "flash" => "flash #{id}", "error" => id,
      "role" => id.even? ? "writing" : "reading", "tags" => "tag#{id}" }
  end
end
# rubocop:enable Layout/LineLength
