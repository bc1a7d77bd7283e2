# frozen_string_literal: true

require_relative "labels"
require_relative "wait_count"

module NB
  # The pools of this process: ours, and those of libraries that drivers know. For {NB.pools} and
  # for `nb_pool_…` in `/metrics`. A pool that is no longer referenced drops out.
  #
  # A pool is an object with `account`, which never waits: it takes no lock that a fiber may hold.
  #
  # @api private
  module Pools
    # How many names have a label of their own in /metrics.
    NAMES = 30
    # Lines that are not the program's.
    OURS = "#{File.expand_path("..", __dir__)}/".freeze

    # One pool at this moment. `waiting` and `waits` (a {WaitCount}) are nil where they are not
    # known. Two queues tell what a fiber that waits there does: in `rests` it is idle, in `queue`
    # it is one of the waiters.
    Account = Struct.new(:name, :kind, :size, :in_use, :idle, :waiting, :waits, :holders, :waiters,
                         :rests, :queue, keyword_init: true)
    # A fiber or thread that holds something of the pool. `got` is when it last received something
    # it had waited for, which need not be what it holds now; nil: never. `lease` is what it holds,
    # whose `since` may be known.
    Holder = Struct.new(:fiber, :got, :lease)
    # A waiter. If it has no fiber, it has a place: that of a block which no fiber runs yet.
    Waiter = Struct.new(:fiber, :since, :place)

    # The parts of one label's gauges.
    GAUGES = %i[size in_use idle waiting].freeze
    private_constant :GAUGES

    @all = ObjectSpace::WeakMap.new
    @sources = []
    @labels = Labels.new(NAMES)
    @totals = {}

    class << self
      # Each pool is its own value: Ruby 3.1 and 3.2 check only the value to tell whether an entry
      # is alive, and return keys that are being collected.
      #
      # @param pool [#account, #waits]
      # @return [void]
      def add(pool) = @all[pool] = pool

      # Registers a block that lists pools which are not registered one by one.
      #
      # @yieldreturn [Array<Account>]
      # @return [void]
      def source(&block) = @sources << block

      # A counter for pools of this name. It outlives the pool, so no total falls.
      #
      # @param name [String]
      # @return [WaitCount]
      def wait_count(name) = WaitCount.new(total(@labels.of(name)))

      # @return [String] the name of a pool without one: the line of the program that makes it
      def place
        line = caller_locations(2, 20).find { |one| !one.path.to_s.start_with?(OURS) }
        line ? name_of(line.path, line.lineno) : "unnamed"
      end

      # @return [String] a line of the program, seen from the working directory
      def name_of(path, line)
        "#{path.delete_prefix("#{Dir.pwd}/")}:#{line}"
      rescue SystemCallError
        "#{path}:#{line}" # the working directory was deleted
      end

      # @return [Array<Account>]
      def accounts = @all.keys.map(&:account) + @sources.flat_map { |source| ask(source) }

      # @return [Hash{Object=>String}] the names of the pools for which something waits, by the
      #   fiber, or by the {Account#queue} in which fibers wait; by identity
      def awaited
        accounts.each_with_object({}.compare_by_identity) do |account, names|
          account.waiters.each { |one| names[one.fiber] = account.name.to_s if one.fiber }
          names[account.queue] = account.name.to_s if account.queue
        end
      end

      # @return [Hash{Symbol=>Hash{String=>Numeric}}] the values of `nb_pool_…`, by label
      def counts
        found = accounts.group_by { |account| @labels.of(account.name) }
        gauges = GAUGES.to_h do |name|
          [name, found.transform_values { |all| all.filter_map(&name).sum }]
        end
        gauges.merge(waits: totals(&:waits), wait_seconds: totals(&:seconds),
                     timeouts: totals(&:timeouts))
      end

      # In a forked child, nothing of the parent waits.
      #
      # @return [void]
      def forked
        @all.each_key { |pool| pool.waits.reset }
        @totals.each_value(&:reset)
      end

      private

      # A library in trouble must not end a worker's reports or hide the other numbers.
      def ask(source)
        source.call
      rescue StandardError => error
        warn("neverblock: cannot list pools: #{error.class}: #{error.message}") unless @warned
        @warned = true
        []
      end

      def totals(&block) = @totals.transform_values(&block)

      # Two threads at a time get the same counter: nothing runs between the read and the write.
      def total(label)
        made = WaitCount.new
        @totals[label] ||= made
      end
    end
  end
end
