# frozen_string_literal: true

require "neverblock"

module Tracing
  # What a request does, in every way in which a program starts work in a loop. Each part opens a
  # span that bears the request's token, and calls a service in it, whose client sends the ids of
  # its own span. The service answers with what it got.
  #
  # `vendor` has `span(name, token) { |set| }`, where `set.call(key, value)` adds to the span.
  class Work
    KINDS = %i[gather map group first async pool offload enumerator left as_completed databases
               suspended].freeze
    POOL_SIZE = 20

    # @param backend [Integer] the service's port
    # @param postgresql [String] URL
    # @param redis [String] URL
    def initialize(vendor, backend:, postgresql:, redis:)
      @vendor = vendor
      @backend = backend
      @tasks_left = 0
      @postgresql = NB::ConnectionPool.new(size: POOL_SIZE) { PG.connect(postgresql) }
      @redis = NB::ConnectionPool.new(size: POOL_SIZE) { Redis.new(url: redis) }
    end

    # @return [Integer] tasks that go on after their request
    attr_reader :tasks_left

    # @param token [String] the request's
    # @param kinds [Array<Symbol>] of KINDS
    def call(token, kinds)
      @vendor.span("work", token) do
        part("here", token)
        kinds.each { |kind| send(kind, token) }
        part("after", token) # what the others did has not changed the context
      end
    end

    # @return [String] what the service got: no ids, as long as the agent is not connected
    def ask(token) = fetch("/#{token}/ask")

    # A span with a call in it.
    def part(name, token)
      @vendor.span(name, token) do |set|
        sleep(rand * 0.005)
        set.call("echo", fetch("/#{token}/#{name}"))
        sleep(rand * 0.002)
      end
      name
    end

    private

    def fetch(path)
      Net::HTTP.start("127.0.0.1", @backend) { |http| http.get(path) }.body
    end

    def gather(token)
      NB.gather(-> { part("gather1", token) }, -> { part("gather2", token) })
    end

    def map(token) = NB.map(1..3, concurrency: 2) { |n| part("map#{n}", token) }

    def group(token)
      NB.group do |group|
        group.async { part("group1", token) }
        group.async { NB.gather(-> { part("group2", token) }) }
      end
    end

    def first(token) = NB.first(-> { part("first1", token) })

    def as_completed(token)
      NB.as_completed(-> { part("as1", token) }, -> { part("as2", token) }).each { |name| name }
    end

    def async(token) = NB.async { part("async1", token) }.value

    # Ends after the request.
    def left(token)
      @tasks_left += 1
      NB.async do
        sleep(0.02)
        part("left1", token)
      ensure
        @tasks_left -= 1
      end
    end

    def pool(token)
      @pool ||= NB::FiberPool.new(POOL_SIZE)
      done = Thread::Queue.new
      @pool.spawn { done << part("pool1", token) }
      done.pop
    end

    def offload(token) = NB.offload { part("offload1", token) }

    def databases(token)
      NB.gather(-> { sql("sql1", token) }, -> { cache("cache1", token) })
    end

    def sql(name, token)
      @vendor.span(name, token) do
        @postgresql.with { |db| db.exec("SELECT pg_sleep(0.002) AS #{token}_#{name}") }
      end
    end

    def cache(name, token)
      @vendor.span(name, token) { @redis.with { |redis| redis.get("#{token}_#{name}") } }
    end

    def enumerator(token)
      parts = Enumerator.new { |values| 2.times { |n| values << part("enumerator#{n}", token) } }
      parts.next
      part("between", token)
      parts.next
    end

    # Outside of it the context is the request's, also while it stands in the middle of a span.
    def suspended(token)
      parts = Enumerator.new do |values|
        @vendor.span("suspended1", token) do
          values << 1
          part("suspended2", token)
        end
        values << 2
      end
      parts.next
      part("meanwhile", token)
      parts.next
    end
  end

  # The spans of each kind.
  SPANS = {
    gather: %w[gather1 gather2], map: %w[map1 map2 map3], group: %w[group1 group2],
    first: %w[first1], async: %w[async1], pool: %w[pool1], offload: %w[offload1],
    left: %w[left1], as_completed: %w[as1 as2],
    databases: %w[sql1 cache1],
    enumerator: %w[enumerator0 enumerator1 between],
    suspended: %w[suspended1 suspended2 meanwhile]
  }.freeze

  # @return [Hash{String => String}] the name of each span that a request is to have, with that of
  #   its parent
  def self.expected(kinds)
    return { "here" => nil } if kinds == :fail

    parents = { "here" => "work", "after" => "work" }
    kinds.each { |kind| SPANS.fetch(kind).each { |name| parents[name] = "work" } }
    parents["suspended2"] = "suspended1" if parents.key?("suspended2")
    parents
  end

  # @param kinds [Array<Symbol>]
  # @return [Array<Symbol>] some of them, by the token
  def self.kinds_of(token, kinds, count) = kinds.rotate(token[/\d+\z/].to_i).first(count)
end
