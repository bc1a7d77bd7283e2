# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "neverblock"
require "server/helper"
require_relative "../support/subprocess"
begin
  require "active_resource"
rescue LoadError
  nil
end

# ActiveResource keeps the headers, the user and the site of its classes per thread.
class ActiveResourceTest < Minitest::Test
  include ServerTest

  COUNT = 30
  FIELDS = %w[HTTP_X_TOKEN HTTP_AUTHORIZATION HTTP_X_KEY].freeze

  # Answers with what it was asked with.
  def setup
    skip "activeresource is not installed" unless defined?(ActiveResource::Base)
    serve do |env|
      sleep(rand * 0.005)
      [200, { "content-type" => "application/json" },
       [JSON.generate(id: env["PATH_INFO"][/(\w+)\.json/, 1], seen: env.values_at(*FIELDS))]]
    end
    site = "http://127.0.0.1:#{@server.port}"
    @base = Class.new(ActiveResource::Base) do
      self.site = site
      headers["X-Key"] = "key"
    end
    @thing = named(@base)
  end

  def named(base) = Class.new(base) { self.element_name = "thing" }

  # Sets what belongs to a request, then asks for it.
  def request(id)
    @thing.headers["X-Token"] = id.to_s
    @thing.user = "user#{id}"
    @thing.password = "secret"
    sleep(rand * 0.01)
    seen(@thing.find(id))
  end

  def seen(thing) = [thing.id, thing.seen[0], thing.seen[1].unpack1("x6m"), thing.seen[2]]
  def expected(id) = [id.to_s, id.to_s, "user#{id}:secret", "key"]

  def fibers(ids)
    found = []
    NB.run { ids.each { |id| Fiber.schedule { found << yield(id) } } }
    found
  end

  # As Rails does while it develops. The class is loaded when it is first named.
  def test_a_class_that_is_loaded_in_a_loop
    result = Subprocess.ruby(<<~'RUBY')
      require "active_resource"
      NB.run do
        person = Class.new(ActiveResource::Base) { self.site = "http://localhost" }
        seen = %w[a b].map do |name|
          NB.async { (person.user = name) && sleep(0.001) && person.user }
        end
        p seen.map(&:value)
      end
    RUBY
    assert_equal ["[\"a\", \"b\"]\n", ""], [result.out, result.err]
  end

  def test_requests_send_their_own_headers_and_user_as_in_threads
    ids = (1..COUNT).to_a
    wanted = ids.map { |id| expected(id) }
    assert_equal wanted, ids.map { |id| Thread.new { request(id) } }.map(&:value)
    assert_equal wanted, fibers(ids) { |id| request(id) }.sort_by { |one| one[0].to_i }
  end

  # Its first request loads it; later ones find what it says of itself.
  def test_a_class_that_a_request_loads
    port = @server.port
    one = nil
    NB.run do
      NB.async do
        one = named(Class.new(ActiveResource::Base) { self.site = "http://127.0.0.1:#{port}" })
        one.headers["X-Key"] = "key"
      end.value
      found = NB.map(1..5, concurrency: 5) { |id| one.find(id).seen[2] }
      assert_equal ["key"] * 5, found
    end
  end

  def test_fibers_of_a_request_begin_with_copies
    found = fibers(1..10) do |id|
      request(id)
      inner = NB.gather(-> { sleep(0.001) && seen(@thing.find(id)) }, -> { request(id + 100) },
                        -> { NB.async { seen(@thing.find(id)) }.value })
      [id, inner, seen(@thing.find(id))]
    end
    wanted = (1..10).map do |id|
      [id, [expected(id), expected(id + 100), expected(id)], expected(id)]
    end
    assert_equal wanted, found.sort_by(&:first)
  end

  def test_the_block_of_a_loop_has_what_its_thread_has
    request(1)
    NB.run do
      assert_equal expected(1), seen(@thing.find(1))
      NB.async { request(2) }.value
      @thing.user = "user3"
    end
    assert_equal ["1", "1", "user3:secret", "key"], seen(@thing.find(1))
  end
end
