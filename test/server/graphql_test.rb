# frozen_string_literal: true

require_relative "crowd"
require "async" # before what needs it
require "graphql"

# GraphQL-Ruby and its Dataloader, which runs fields and sources in fibers of its own.
class GraphQLTest < Minitest::Test
  include Crowd

  # Looks keys up, as if at a service.
  class Echo < GraphQL::Dataloader::Source
    def initialize(wait) = @wait = wait
    def fetch(keys) = keys.map { |key| @wait.call(key, :source) }
  end

  # A field that waits, and two that one call of the source answers.
  class Query < GraphQL::Schema::Object
    %i[waits loaded again].each { |name| field name, String }

    def waits = context[:wait].call(context[:token], :field)
    def loaded = dataloader.with(Echo, context[:wait]).load(context[:token])
    alias again loaded
  end

  ALL = "{ waits loaded again }"

  def schema(*words, **options)
    Class.new(GraphQL::Schema) do
      query Query
      use(*words, **options) if words.any?
    end
  end

  def answers(schema, token, wait)
    result = schema.execute(ALL, context: {token: token, wait: wait}).to_h
    result.fetch("data") { [result] }.to_h.values
  end

  def test_the_dataloader_that_does_not_block
    loader = nil
    capture_io { loader = schema(GraphQL::Dataloader, nonblocking: true) } # deprecated
    crowd(rack { |token| answers(loader, token, @meeting.method(:wait)) })
  end

  def test_the_async_dataloader
    skip "it needs async 2.25" if Gem::Version.new(Async::VERSION) < Gem::Version.new("2.25")
    require "graphql/dataloader/async_dataloader"
    loader = schema(GraphQL::Dataloader::AsyncDataloader)
    crowd(rack { |token| answers(loader, token, @meeting.method(:wait)) })
  end

  # Its fibers are blocking ones: what waits in them stops the loop, but goes on.
  def test_the_default_dataloader
    loader = schema(GraphQL::Dataloader)
    blocking = []
    wait = ->(token, _) { (blocking << Fiber.current.blocking?) && sleep(0.001) && token }
    crowd(rack { |token| [@meeting.wait(token), *answers(loader, token, wait)] })
    assert_equal [true], blocking.uniq, "it waits in the loop now: docs/TRANSPARENCY.md, nb doctor"
  end

  def test_without_a_dataloader
    plain = Class.new(GraphQL::Schema::Object) do
      graphql_name "Query"
      field :waits, String
      def waits = context[:wait].call(context[:token], :field)
    end
    schema = Class.new(GraphQL::Schema) { query plain }
    crowd(rack do |token|
      context = {token: token, wait: @meeting.method(:wait)}
      schema.execute("{ waits }", context: context).to_h["data"].values
    end)
  end
end
