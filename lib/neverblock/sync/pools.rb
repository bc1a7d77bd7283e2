# frozen_string_literal: true

require_relative "labels"
require_relative "wait_count"

module NB
  # The pools of this process: ours, and those of libraries that drivers know. For {NB.pools} and
  # for `nb_pool_…` in `/metrics`. A pool that nobody uses any more is forgotten.
  #
  # A pool is what responds to `account`, which never waits: it takes no lock that a fiber may have.
  #
  # @api private
  module Pools
    # How many names are told apart in /metrics.
    NAMES = 30
    # Which lines are the program's: not these.
    OURS = "#{File.expand_path("..", __dir__)}/".freeze

    # One pool at this moment. nil where it is not known: `waiting` and `waits`, a {WaitCount}. Two
    # queues tell what a fiber does that waits there: `rests`, it has nothing to do, and `queue`, it
    # is one of those who wait.
    Account = Struct.new(:name, :kind, :size, :in_use, :idle, :waiting, :waits, :holders, :waiters,
                         :rests, :queue, keyword_init: true)
    # Who has something of the pool. `got` is when it last got something it had waited for, which
    # need not be what it has; nil: never. `lease` is what it has: its `since` is known, or nil.
    Holder = Struct.new(:fiber, :got, :lease)
    # Who waits. Without a fiber there is a place: a block's that no fiber has run yet.
    Waiter = Struct.new(:fiber, :since, :place)

    # What a label's gauges are made of.
    GAUGES = %i[size in_use idle waiting].freeze
    private_constant :GAUGES

    @all = ObjectSpace::WeakMap.new
    @sources = []
    @labels = Labels.new(NAMES)
    @totals = {}

    class << self
      # Each is its own value: Ruby 3.1 and 3.2 look at the value only to tell whether an entry is
      # alive, and give out keys that are being collected.
      #
      # @param pool [#account, #waits]
      # @return [void]
      def add(pool) = @all[pool] = pool

      # Has the block called for pools that are not registered one by one.
      #
      # @yieldreturn [Array<Account>]
      # @return [void]
      def source(&block) = @sources << block

      # A counter for a pool of this name. What it counts outlives the pool, so that no total falls.
      #
      # @param name [String]
      # @return [WaitCount]
      def wait_count(name) = WaitCount.new(total(@labels.of(name)))

      # @return [String] for a pool without a name: the line of the program that makes it
      def place
        line = caller_locations(2, 20).find { |one| !one.path.to_s.start_with?(OURS) }
        line ? "#{line.path.delete_prefix("#{Dir.pwd}/")}:#{line.lineno}" : "unnamed"
      rescue SystemCallError
        "#{line.path}:#{line.lineno}" # the working directory was deleted
      end

      # @return [Array<Account>]
      def accounts = @all.keys.map(&:account) + @sources.flat_map { |source| ask(source) }

      # @return [Hash{Symbol=>Hash{String=>Numeric}}] what `nb_pool_…` is, by label
      def counts
        found = accounts.group_by { |account| @labels.of(account.name) }
        gauges = GAUGES.to_h do |name|
          [name, found.transform_values { |all| all.filter_map(&name).sum }]
        end
        gauges.merge(waits: totals(&:waits), wait_seconds: totals(&:seconds),
                     timeouts: totals(&:timeouts))
      end

      # In a forked child: nobody of the parent waits here.
      #
      # @return [void]
      def forked
        @all.each_key { |pool| pool.waits.reset }
        @totals.each_value(&:reset)
      end

      private

      # A library in trouble shall not end a worker's reports, nor hide the other numbers.
      def ask(source)
        source.call
      rescue StandardError => error
        warn("neverblock: cannot list pools: #{error.class}: #{error.message}") unless @warned
        @warned = true
        []
      end

      def totals(&block) = @totals.transform_values(&block)

      # Two threads at a time get the same one: nothing comes between the look and the entry.
      def total(label)
        made = WaitCount.new
        @totals[label] ||= made
      end
    end
  end
end
